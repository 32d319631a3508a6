package activities

import "sync"

// WaitingPlaces is how many batches of a process may wait for receivers at a time.
// A worker needs more places for activities than that: others are not to wait with
// them.
const WaitingPlaces = 80

// places are the WaitingPlaces. A webhook may take as many as are free beside its
// own: however many receivers are slow, there is one for the next webhook.
type places struct {
	mu    sync.Mutex
	taken int
	by    map[string]int // webhook
}

// take takes a place; false if the webhook may have no more.
func (p *places) take(webhookID string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.by[webhookID] >= WaitingPlaces-p.taken {
		return false
	}
	if p.by == nil {
		p.by = map[string]int{}
	}
	p.taken++
	p.by[webhookID]++
	return true
}

// giveBack frees a place.
func (p *places) giveBack(webhookID string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.by[webhookID]--; p.by[webhookID] == 0 {
		delete(p.by, webhookID)
	}
}
