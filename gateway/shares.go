package gateway

import (
	"context"
	"sync"
	"time"

	"waypost"
)

// shares bound what goes on at a time in the process: most in all. An organisation that has
// some gets another one only while more than half as many as it has are free, and never the last
// one (the dynamic thresholds of Choudhury and Hahne, for buffers of switches): alone it gets
// about two thirds, and the others find some free whatever it does.
type shares struct {
	most, mostOf int // mostOf an application

	mu           sync.Mutex
	taken        int
	byOrg, byApp map[string]int
	freed        chan struct{} // closed when one gets free; nil: nobody waits
}

func newShares(most, mostOf int) *shares {
	return &shares{most: most, mostOf: mostOf, byOrg: map[string]int{}, byApp: map[string]int{}}
}

// take takes one for an application; false if it gets none now.
func (s *shares) take(app waypost.Application) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.takeLocked(app)
}

func (s *shares) takeLocked(app waypost.Application) bool {
	free, has := s.most-s.taken, s.byOrg[app.Org]
	if free == 0 || has > 0 && (free == 1 || has >= 2*free) || s.byApp[app.ID] >= s.mostOf {
		return false
	}
	s.taken++
	s.byOrg[app.Org]++
	s.byApp[app.ID]++
	return true
}

// wait is take that waits for a time; an error only if ctx ends before.
func (s *shares) wait(ctx context.Context, app waypost.Application, patience time.Duration) (bool, error) {
	over := time.NewTimer(patience)
	defer over.Stop()
	for {
		s.mu.Lock()
		if s.takeLocked(app) {
			s.mu.Unlock()
			return true, nil
		}
		if s.freed == nil {
			s.freed = make(chan struct{})
		}
		freed := s.freed
		s.mu.Unlock()
		select {
		case <-freed:
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-over.C:
			return false, nil
		}
	}
}

func (s *shares) release(app waypost.Application) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.byOrg[app.Org]--; s.byOrg[app.Org] == 0 {
		delete(s.byOrg, app.Org)
	}
	if s.byApp[app.ID]--; s.byApp[app.ID] == 0 {
		delete(s.byApp, app.ID)
	}
	if s.freed != nil {
		close(s.freed)
		s.freed = nil
	}
}
