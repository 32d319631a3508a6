package faults

import (
	"bytes"
	"compress/gzip"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// slowReceivers is the setting of webhooks whose receivers hold nobody up themselves.
var slowReceivers = map[string]any{"timeoutMs": 10_000}

// The receiver's machine is away in the middle of a launch, and while single leads are
// enrolled: few attempts are made meanwhile, nothing fails, and all is delivered when
// it is back.
func dead(t *testing.T, f *harness.Fleet) {
	c := begin(t, "receiver dead", f)
	c.resumes = 90 * time.Second // nobody asks for up to 30 s
	c.ends = 8 * time.Minute     // thousands have a workflow each
	r := harness.NewReceiver(t, taken)
	perSecond := harness.Scaled(50, 1_000)
	leads := f.MakeLeads(t, 5, harness.Scaled(300, 20_000))
	launched := c.publish(r, single, map[string]any{"retry": map[string]any{
		"schedule": harness.Scaled([]string{"1s", "2s", "3s"}, []string{"5s", "30s", "1m"}), "giveUpAfter": "1h",
	}})
	c.outage(c.publish(r, double, nil), 6, harness.Scaled(8*time.Second, 2*time.Minute), func() {
		c.launch(launched, leads, perSecond)
		began := time.Now()
		f.AwaitLaunch(t, c.launches[0], c.ends, "at 30 %", func(l harness.Launched) bool { return l.Outcomes.Succeeded*10 >= len(leads)*3 })
		t.Logf("beside single enrollments, 30 %% of the launch took %s", time.Since(began).Round(time.Second))
		r.Down()
	}, func() {
		l := f.AwaitLaunch(t, c.launches[0], time.Minute, "held back", func(l harness.Launched) bool { return l.Outcomes.Deferred > 0 })
		if l.Outcomes.Failed > 0 {
			c.wrong("while the receiver is dead, the launch is %+v", l)
		}
	}, func() { r.Up(t) })
	// Those until the breaker opens, and its probes. Without it each message would be tried,
	// most of them again and again.
	made := c.failed()
	t.Logf("%d attempts were made while the receiver was dead", made)
	if most := harness.Scaled(300, 3_000); made > most {
		c.wrong("%d attempts were made while the receiver was dead, want %d at most", made, most)
	}
}

// The receiver's machine comes and goes.
func flapping(t *testing.T, f *harness.Fleet) {
	c := begin(t, "receiver flapping", f)
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		a := taken(m, attempt)
		if share(m, 4) == 0 {
			a.After = 200 * time.Millisecond // some are to be cut off
		}
		return a
	})
	journey := c.publish(r, double, nil)
	times, period := harness.Scaled(3, 6), harness.Scaled(1500*time.Millisecond, 5*time.Second)
	perSecond := harness.Scaled(10, 50)
	leads := f.MakeLeads(t, 7, perSecond*(int(2*period*time.Duration(times)/time.Second)+5))
	stop := c.load(journey, leads, perSecond)
	defer stop()
	for range times {
		time.Sleep(period)
		r.Down()
		time.Sleep(period)
		r.Up(t)
		c.over()
	}
	time.Sleep(period) // somebody is to be enrolled after it
	stop()
	c.judge()
	if c.failed() == 0 {
		c.wrong("no attempt failed: the case shows nothing")
	}
}

// resetting takes most messages, and some only after it has reset the connection:
// when it has read the message, in the headers of its answer, or in the middle of it.
// Some connections it resets when nothing comes on them.
func resetting(m waypost.Message, attempt int) harness.Answer {
	a := taken(m, attempt)
	n := share(m, 10)
	switch {
	case n < 2 && attempt == 1:
		return reset("")
	case n == 2 && attempt <= 2:
		return reset("HTTP/1.1 200 OK\r\nContent-Le")
	case n == 3 && attempt <= 2:
		return reset("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n" + `{"succeed`)
	case n >= 7:
		a.Idle = time.Duration(share(m, 50)) * time.Millisecond
	}
	return a
}

// reset ends the connection behind the beginning of an answer.
func reset(begun string) harness.Answer {
	return harness.Answer{Class: waypost.ClassNetwork, Raw: func(c *net.TCPConn) bool {
		_, _ = io.WriteString(c, begun)
		harness.Reset(c)
		return begun != ""
	}}
}

// The receiver resets connections.
func resets(t *testing.T, f *harness.Fleet) {
	c := begin(t, "receiver resetting", f)
	r := harness.NewReceiver(t, resetting)
	c.loaded(c.publish(r, double, slowReceivers), 8)
	c.judge()
	again := 0
	for _, posts := range r.Ledger() {
		for i, a := range posts[1:] {
			// No retry comes so soon.
			if before := posts[i]; before.Unanswered && a.At.Sub(before.At) < 500*time.Millisecond {
				again++
			}
		}
	}
	if again == 0 {
		c.wrong("no kept connection was reset: the case shows nothing")
	}
	t.Logf("%d POSTs were made once more because a kept connection was reset", again)
}

// loaded enrolls leads for a while.
func (c *trial) loaded(journeyID string, group int) {
	c.t.Helper()
	perSecond, seconds := harness.Scaled(10, 50), harness.Scaled(8, 30)
	stop := c.load(journeyID, c.fleet.MakeLeads(c.t, group, perSecond*seconds), perSecond)
	time.Sleep(time.Duration(seconds) * time.Second) // so long they come
	c.over()
	stop()
}

// garbled is an answer that is not what it should be, and what it has to be taken for.
type garbled struct {
	status int
	class  string
	say    func(*net.TCPConn)
}

const head = "HTTP/1.1 200 OK\r\n"

// garbage are the answers of a receiver that is broken. What is no answer is asked for
// again; 200 with something else than the documented body is a success, and an answer
// that is too large to be read is a failure for good.
var garbage = []garbled{
	{0, waypost.ClassNetwork, says("220 mail.example ESMTP\r\n")},
	{0, waypost.ClassNetwork, says("\x15\x03\x01\x00\x02\x02\x0a\x00\xff\xfe")},
	{0, waypost.ClassNetwork, says(head + "Content-Le")},
	{0, waypost.ClassNetwork, says("HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n")},
	{0, waypost.ClassNetwork, says(head + "Content-Length: 1\r\nContent-Length: 2\r\n\r\nab")},
	{0, waypost.ClassNetwork, endless(head, "X-More: of it\r\n", 0)},
	{0, waypost.ClassNetwork, endless("", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 0)},
	{200, waypost.ClassNetwork, says(head + "Content-Length: 100\r\n\r\n" + `{"succeed":true}`)},
	{200, waypost.ClassNetwork, says(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\n" + `{"succeed":true}`)},
	{200, waypost.ClassNetwork, says(head + "Transfer-Encoding: chunked\r\n\r\n10\r\n" + `{"succeed":true}` + "\r\n")},
	{200, waypost.ClassNetwork, says(head + "Content-Encoding: gzip\r\nContent-Length: 16\r\n\r\n" + `{"succeed":true}`)},
	{200, waypost.ClassTimeout, endless(head+"\r\n", " ", 50*time.Millisecond)},
	{200, waypost.ClassResponseTooLarge, endless(head+"\r\n"+`{"succeed":true,"data":"`, "xxxxxxxxxxxxxxxx", 0)},
	{200, waypost.ClassResponseTooLarge, func(c *net.TCPConn) { says(head + "Content-Encoding: gzip\r\n\r\n" + bomb())(c) }},
	// Behind an answer stands another one, which is nobody's.
	{503, waypost.ClassHTTPStatus, staysOpen("HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n" + head + "Content-Length: 0\r\n\r\n")},
	{200, "", staysOpen(head + "Content-Length: 5\r\n\r\n" + `{"succeed":false}`)},
	{200, "", says(head + "Content-Length: 2\r\n\r\nOK")},
	{200, "", says(head + "Content-Length: 19\r\n\r\n" + `{"succeed":"false"}`)},
	{200, "", endless(head+"\r\n<html>", "<p>It works!</p>", 0)},
}

func says(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = io.WriteString(c, text) }
}

// staysOpen leaves the connection open behind what it says, as one that is kept.
func staysOpen(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		says(text)(c)
		time.Sleep(time.Second) // in which other messages are sent
	}
}

// endless repeats itself until the sender hangs up.
func endless(begin, more string, pause time.Duration) func(*net.TCPConn) {
	if pause == 0 {
		more = strings.Repeat(more, 100)
	}
	return func(c *net.TCPConn) {
		_, err := io.WriteString(c, begin)
		for until := time.Now().Add(time.Minute); err == nil && time.Now().Before(until); time.Sleep(pause) {
			_, err = io.WriteString(c, more)
		}
	}
}

// bomb is small and unpacks to very much.
var bomb = sync.OnceValue(func() string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = io.WriteString(w, `{"succeed":true,"data":"`+strings.Repeat("x", 8<<20)) // memory does not fail
	_ = w.Close()
	return b.String()
})

// The receiver answers garbage to half of the messages, and works when it is asked
// again.
func answersGarbage(t *testing.T, f *harness.Fleet) {
	c := begin(t, "receiver answering garbage", f)
	bomb() // it takes its time: not while the sender waits
	kinds := uint32(len(garbage))
	var mu sync.Mutex
	met := map[uint32]bool{}
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		n := share(m, 2*kinds)
		if n >= kinds || attempt > 1 {
			return taken(m, attempt)
		}
		mu.Lock()
		defer mu.Unlock()
		met[n] = true
		g := garbage[n]
		return harness.Answer{Status: g.status, Class: g.class, Raw: func(c *net.TCPConn) bool { g.say(c); return true }}
	})
	c.loaded(c.publish(r, double, map[string]any{"timeoutMs": 5_000}), 9)
	c.judge()
	t.Logf("%d of %d kinds of garbage were answered", len(met), kinds)
	if harness.Full && len(met) < len(garbage) {
		c.wrong("only %d of %d kinds of garbage were answered", len(met), kinds)
	}
}
