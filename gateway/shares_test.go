package gateway

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"waypost"
)

func appOf(org, id string) waypost.Application { return waypost.Application{Org: org, ID: org + id} }

// One organisation alone gets most, with whatever many applications; those that come after it get some.
func TestShares(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		most  int
		alone int   // what one application gets
		inAll []int // what organisations get that come one after the other and take what they can
	}{
		{1, 1, []int{1, 0}},
		{2, 1, []int{1, 1, 0}},
		{4, 2, []int{3, 1, 0}},
		{6, 3, []int{4, 1, 1, 0}},
		{8, 4, []int{6, 1, 1, 0}},
		{16, 8, []int{11, 4, 1, 0}},
		{512, 256, []int{342, 114, 38, 12, 4, 1, 1, 0}},
	} {
		t.Run(fmt.Sprint(tt.most), func(t *testing.T) {
			t.Parallel()
			s, got := newShares(tt.most, (tt.most+1)/2), 0
			for s.take(appOf("a", "1")) {
				got++
			}
			if got != tt.alone {
				t.Errorf("one application gets %d, want %d", got, tt.alone)
			}
			for range got {
				s.release(appOf("a", "1"))
			}
			for i, want := range tt.inAll {
				got := 0
				for app := 0; app < tt.most; app++ {
					for s.take(appOf(fmt.Sprint("org", i), fmt.Sprint(app))) {
						got++
					}
				}
				if got != want {
					t.Errorf("organisation %d gets %d, want %d", i, got, want)
				}
			}
		})
	}
}

// Whoever waits gets what is released; nothing is left over in the end.
func TestSharesWait(t *testing.T) {
	t.Parallel()
	s := newShares(2, 1)
	a, b := appOf("a", "1"), appOf("b", "1")
	if !s.take(a) || !s.take(b) {
		t.Fatal("two are not there")
	}
	if got, err := s.wait(t.Context(), a, time.Nanosecond); got || err != nil {
		t.Errorf("one more: %t, %v", got, err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if got, err := s.wait(gone, a, time.Hour); got || !errors.Is(err, context.Canceled) {
		t.Errorf("of who has gone: %t, %v", got, err)
	}
	results := make(chan bool)
	for range 2 {
		go func() {
			got, _ := s.wait(context.Background(), appOf("c", "1"), time.Hour)
			s.release(appOf("c", "1"))
			results <- got
		}()
	}
	s.release(a)
	for range 2 {
		if !<-results {
			t.Error("nobody got what was released")
		}
	}
	s.release(b)
	if s.taken != 0 || len(s.byOrg) != 0 || len(s.byApp) != 0 {
		t.Errorf("left: %d, %v, %v", s.taken, s.byOrg, s.byApp)
	}
}
