package waypost

import "time"

// WebhookInterval says how the attempts of a webhook have ended that began in an hour or
// a day. Attempts that made no POST (render), or whose answer nobody saw (interrupted),
// do not count.
type WebhookInterval struct {
	From              time.Time
	Succeeded, Failed int
	P50, P99          time.Duration // within one percent; 0 without attempts
}

// Attempts counts all of them.
func (i WebhookInterval) Attempts() int { return i.Succeeded + i.Failed }
