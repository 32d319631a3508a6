package activities

import "time"

// SetWriteTime bounds a write of outcomes.
func (a *Activities) SetWriteTime(d time.Duration) { a.recorder.writeTime = d }

// PacingPlaces is how many launches may wait for their rate in activities.
const PacingPlaces = pacingPlaces

// Lines tells how many webhooks a Turnstile remembers.
func Lines(t *Turnstile) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}

// Places are what batches wait for receivers in.
type Places struct{ places }

// Take and GiveBack take a place and free it.
func (p *Places) Take(webhookID string) bool { return p.take(webhookID) }
func (p *Places) GiveBack(webhookID string)  { p.giveBack(webhookID) }
