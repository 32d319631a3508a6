package delivery

import "time"

// SetWriteTime bounds a write of outcomes.
func (e *Engine) SetWriteTime(d time.Duration) { e.recorder.writeTime = d }

// Lines tells how many webhooks a Gate remembers.
func Lines(g *Gate) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.lines)
}

// Slots are what batches wait for receivers in.
type Slots struct{ slots }

// Take and GiveBack take a slot and free it.
func (s *Slots) Take(webhookID string) bool { return s.take(webhookID) }
func (s *Slots) GiveBack(webhookID string)  { s.giveBack(webhookID) }
