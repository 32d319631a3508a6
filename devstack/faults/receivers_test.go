package faults

import (
	"hash/fnv"
	"io"
	"net/http"
	"slices"
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
	t.Run("limited", func(t *testing.T) { harness.Besides(t); limited(t, f) })
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
		takes   = 4 * time.Second
		most    = 250 * time.Millisecond // the healthy receiver's p99
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
			a.After = takes
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
	switch {
	case !harness.Full: // other tests slow it down, too, but most messages wait for no answer of the slow one
		if beside.p50 > takes {
			s.wrong("the healthy receiver's p50 is %s beside the slow one, which takes %s", beside.p50, takes)
		}
	case alone.p99 > most/2:
		s.wrong("the healthy receiver's p99 is %s alone: this machine is too slow to tell", alone.p99)
	case beside.p99 > most:
		s.wrong("the healthy receiver's p99 is %s beside the slow one, %s alone; it is to stay under %s", beside.p99, alone.p99, most)
	}
}

// Single messages wait for a slow receiver, more of them than the only worker carries out
// activities at a time. A launch is not held up, though its activities give way to theirs.
func TestSlowSingles(t *testing.T) {
	harness.Besides(t)
	const (
		takes = 8 * time.Second
		slots = 120 // of a worker
	)
	// On a busy machine those that come within 50 ms share a slot; even so the messages of takes need more than slots.
	perSecond := harness.Scaled(30, 20)
	within := harness.Scaled(30*time.Second, 5*time.Second)
	f := harness.StartApart(t, 1, 1)
	c := begin(t, "singles to a slow receiver, one worker", f)
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		a := taken(m, attempt)
		a.After = takes
		return a
	})
	singles := c.publish(r, decided, map[string]any{"timeoutMs": 15_000})
	healthy := c.publish(harness.NewReceiver(t, taken), single, nil)
	launched := f.MakeLeads(t, 2, 20)
	stop := c.load(singles, f.MakeLeads(t, 1, perSecond*int((2*takes+within)/time.Second)), perSecond)
	defer stop()
	time.Sleep(takes) // from then on as many are answered as come
	c.launch(healthy, launched, 0)
	f.AwaitLaunch(t, c.launches[0], within, "completed beside the slow receiver", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })
	stop()
	c.judge()
	if harness.Full && r.Most() <= slots {
		c.wrong("only %d messages waited at a time for the slow receiver: the case shows nothing", r.Most())
	}
}

// A webhook's rate limit counts over all workers: at no time have more messages come than
// it allows.
func limited(t *testing.T, f *harness.Fleet) {
	c := begin(t, "rate limit", f)
	r := harness.NewReceiver(t, taken)
	rate := harness.Scaled(10, 50) // a second, and at once
	journey := c.publish(r, single, map[string]any{"rateLimit": map[string]any{"perSecond": rate, "burst": rate}})
	leads := f.MakeLeads(t, 10, harness.Scaled(60, 1_000))
	began := time.Now()
	c.launch(journey, leads, 0)
	c.judge()
	var came []time.Time
	for _, posts := range r.Ledger() {
		for _, a := range posts {
			came = append(came, a.At)
		}
	}
	slices.SortFunc(came, time.Time.Compare)
	for i, at := range came {
		if after := at.Sub(began); float64(i) > float64(rate)*(1+after.Seconds()) {
			c.wrong("%d messages came within %s, %d a second are allowed", i+1, after, rate)
			break
		}
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
