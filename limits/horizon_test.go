package limits

import (
	"context"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// slowHorizon lets a write of the horizon wait.
type slowHorizon struct {
	memory
	begun, goOn chan struct{}
	slow        bool
}

func (h *slowHorizon) RaiseNonceHorizon(ctx context.Context, to time.Time) error {
	if h.slow {
		h.slow = false
		close(h.begun)
		<-h.goOn
	}
	return h.memory.RaiseNonceHorizon(ctx, to)
}

// A request that was signed ahead counts once, also where Redis forgets its nonce before the horizon is written.
func TestForgetsBeforeTheHorizon(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	client := connect(t, server.Addr())
	h := &slowHorizon{begun: make(chan struct{}), goOn: make(chan struct{})}
	a, b := NewNonces(client, h, quiet), NewNonces(client, h, quiet)
	if _, _, err := a.Use(t.Context(), "first", time.Now()); err != nil {
		t.Fatal(err)
	}
	signed := time.Now().Add(200 * time.Second)
	h.slow = true
	got := make(chan bool)
	go func() {
		unused, _, err := a.Use(t.Context(), "captured", signed)
		if err != nil {
			t.Error(err)
		}
		got <- unused
	}()
	<-h.begun
	server.FlushAll()
	if _, err := b.Begin(t.Context()); err != nil { // any request at another gateway
		t.Fatal(err)
	}
	close(h.goOn)
	first := <-got
	second, since, err := b.Use(t.Context(), "captured", signed)
	if err != nil || first && second {
		t.Errorf("one nonce counted: %t, then %t (since %v, %v)", first, second, since, err)
	}
}
