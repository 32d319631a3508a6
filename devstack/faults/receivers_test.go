package faults

import (
	"hash/fnv"
	"io"
	"net/http"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// share is one of n shares that a message belongs to, the same one at every attempt.
func share(m waypost.Message, n uint32) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, m.MessageID) // it cannot fail
	return h.Sum32() % n
}

// flaky takes most messages at once, some only after failing, and some slowly enough
// to be cut off in the middle.
func flaky(m waypost.Message, attempt int) harness.Answer {
	a := taken(m, attempt)
	switch n := share(m, 10); {
	case n < 3 && attempt <= int(n)+1:
		return harness.Answer{Status: http.StatusServiceUnavailable}
	case n >= 7:
		a.After = time.Second
	}
	return a
}

// Receivers that do not work as they should, beside each other.
func TestReceivers(t *testing.T) {
	harness.Besides(t)
	f := harness.StartApart(t, 2, 2)
	t.Run("slow", func(t *testing.T) { slow(t, f) })
	t.Run("fails twice", func(t *testing.T) { harness.Besides(t); failsTwice(t, f) })
	t.Run("dead", func(t *testing.T) { harness.Besides(t); dead(t, f) })
	t.Run("flapping", func(t *testing.T) { harness.Besides(t); flapping(t, f) })
	t.Run("resetting", func(t *testing.T) { harness.Besides(t); resets(t, f) })
	t.Run("garbage", func(t *testing.T) { harness.Besides(t); answersGarbage(t, f) })
}

// A receiver needs 4 s for each message while single messages go to a healthy one:
// those come as soon as they do alone, and the slow one gets no more at a time than
// its webhook allows.
func slow(t *testing.T, f *harness.Fleet) {
	const (
		workers = 2
		most    = 250 * time.Millisecond // on a machine that is fast enough for it without the slow one
	)
	concurrency := harness.Scaled(15, 50) // of each worker
	perSecond := harness.Scaled(20, 50)
	healthy := func(name string, seconds int, beside func(c *trial)) latency {
		c := begin(t, name, f)
		r := harness.NewReceiver(t, taken)
		journey := c.publish(r, single, nil)
		stop := c.load(journey, f.MakeLeads(t, 2, perSecond*seconds), perSecond)
		defer stop()
		if beside != nil {
			beside(c)
		} else {
			time.Sleep(time.Duration(seconds) * time.Second) // so long they come
		}
		stop()
		c.judge()
		return c.row.latency
	}
	alone := healthy("healthy receiver alone", harness.Scaled(3, 20), nil)

	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		a := taken(m, attempt)
		if attempt == 1 { // none comes again
			a.After = 4 * time.Second
		}
		return a
	})
	s := begin(t, "slow receiver (4 s)", f)
	journey := s.publish(r, single, map[string]any{"timeoutMs": 15_000, "maxConcurrency": concurrency})
	n := harness.Scaled(60, 600)
	leads := f.MakeLeads(t, 3, n)
	lasts := n/(workers*concurrency)*4 + 2
	beside := healthy("healthy receiver beside it", lasts, func(*trial) {
		s.launch(journey, leads, 0)
		s.judge()
	})
	if got := r.Most(); got > workers*concurrency {
		s.wrong("the slow receiver had %d messages at a time, %d are allowed", got, workers*concurrency)
	}
	t.Logf("p50 and p99 of the healthy receiver: alone %v, beside %v", alone, beside)
	if bound := max(most, 2*alone.p99); harness.Full && beside.p99 > bound {
		s.wrong("the healthy receiver's p99 is %s beside the slow one, %s alone; it is to stay under %s", beside.p99, alone.p99, bound)
	}
}

// Every message of a launch fails twice, at once, and then works.
func failsTwice(t *testing.T, f *harness.Fleet) {
	c := begin(t, "fails twice, then works", f)
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if attempt <= 2 {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return taken(m, attempt)
	})
	journey := c.publish(r, single, nil)
	n := harness.Scaled(200, 2_000)
	c.launch(journey, f.MakeLeads(t, 4, n), 0)
	c.judge()
	if c.row.posts != 3*n {
		c.wrong("%d POSTs, want 3 for each of %d messages", c.row.posts, n)
	}
}
