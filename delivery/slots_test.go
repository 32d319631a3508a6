package delivery_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"waypost/delivery"
)

// However many webhooks have slow receivers, the next one finds a slot, and none
// has more than half of them.
func TestSlotsAreShared(t *testing.T) {
	t.Parallel()
	var p delivery.Slots
	fill := func(hook string) (n int) {
		for p.Take(hook) {
			n++
		}
		return n
	}
	want := []int{40, 20, 10, 5, 3, 1, 1}
	for i, n := range want {
		if got := fill(fmt.Sprintf("whk_%d", i)); got != n {
			t.Errorf("webhook %d gets %d slots, want %d", i, got, n)
		}
	}
	if fill("whk_late") != 0 {
		t.Error("there are more slots than there should be")
	}
	for i, n := range want {
		for range n {
			p.GiveBack(fmt.Sprintf("whk_%d", i))
		}
	}
	if n := fill("whk_0"); n != 40 {
		t.Errorf("%d slots when all are free again, want 40", n)
	}
}

// Single messages to a receiver that does not answer take half of the slots. Later
// ones answer at once, and learn the end of their POST later: others need the worker.
func TestSlowReceiverTakesNotAllSlots(t *testing.T) {
	t.Parallel()
	const half = delivery.WaitingSlots / 2
	w := newWorld(t, half+3)
	w.clock.stop()
	hang := make(chan struct{})
	w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
	a := w.process(nil)
	single := func(i int) *world { return &world{t: t, version: w.version, items: w.items[i : i+1]} }
	var waiting sync.WaitGroup
	answers := make(chan delivery.Result, half)
	deliver := func(i int) (d delivery.Result) {
		deliveries, err := single(i).deliver(a)
		if err != nil {
			t.Error(err)
			return d
		}
		return deliveries[0]
	}
	for i := range half {
		waiting.Go(func() { answers <- deliver(i) })
	}
	for w.totalPosts() < half {
		time.Sleep(time.Millisecond)
	}
	for i := half; i < half+3; i++ {
		d := deliver(i)
		if d.Outcome != delivery.OutcomeUnderWay || d.Next.Sub(d.At) < time.Second {
			t.Errorf("%s, to come again after %s", d.Outcome, d.Next.Sub(d.At))
		}
	}
	if len(answers) > 0 {
		t.Error("one that has a slot does not wait")
	}
	close(hang)
	waiting.Wait()
	for range half {
		if d := <-answers; d.Outcome != delivery.OutcomeDelivered {
			t.Errorf("one that waited: %s", d.Outcome)
		}
	}
	for i := half; i < half+3; i++ {
		if d := deliver(i); d.Outcome != delivery.OutcomeDelivered {
			t.Errorf("one that came again: %s", d.Outcome)
		}
	}
	if n := w.totalPosts(); n != half+3 {
		t.Errorf("%d POSTs, want %d", n, half+3)
	}
}
