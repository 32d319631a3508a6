package activities

import "time"

// SetWriteTime bounds a write of outcomes.
func (a *Activities) SetWriteTime(d time.Duration) { a.recorder.writeTime = d }

// Lines tells how many webhooks a Turnstile remembers.
func Lines(t *Turnstile) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.lines)
}
