package delivery

import "sync"

// WaitingSlots is how many batches of a process may wait for receivers at a time.
// A worker needs more slots for activities than that: others are not to wait with
// them.
const WaitingSlots = 80

// slots are the WaitingSlots. A webhook may take as many as are free beside its
// own: however many receivers are slow, there is one for the next webhook.
type slots struct {
	mu    sync.Mutex
	taken int
	by    map[string]int // webhook
}

// take takes a slot; false if the webhook may have no more.
func (s *slots) take(webhookID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.by[webhookID] >= WaitingSlots-s.taken {
		return false
	}
	if s.by == nil {
		s.by = map[string]int{}
	}
	s.taken++
	s.by[webhookID]++
	return true
}

// giveBack frees a slot.
func (s *slots) giveBack(webhookID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.by[webhookID]--; s.by[webhookID] == 0 {
		delete(s.by, webhookID)
	}
}
