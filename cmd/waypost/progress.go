package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// progress shows on standard error how far something is: as a bar on a terminal, as
// lines elsewhere.
type progress struct {
	c     *cli
	shown string
	drawn time.Time
	turns int
}

const (
	barWidth = 20
	// redraw is how often a bar follows what flows, so that drawing costs nothing.
	redraw = 100 * time.Millisecond
	// unknown is how much is done where the end is not known.
	unknown = -1
)

// show says how far it is: done is 0 to 1, or unknown.
func (p *progress) show(done float64, line string) {
	if line == p.shown {
		return
	}
	p.shown = line
	if !p.c.terminal {
		fmt.Fprintln(p.c.stderr, line)
		return
	}
	fmt.Fprintf(p.c.stderr, "\r\x1b[K%s %s", p.bar(done), line)
	p.drawn = time.Now()
}

// flow is show for what changes all the time: a terminal sees some of it, and
// others only what show says at the end.
func (p *progress) flow(done float64, line func() string) {
	if p.c.terminal && time.Since(p.drawn) >= redraw {
		p.show(done, line())
	}
}

// during makes a call, and shows meanwhile how far it is.
func (p *progress) during(call func() (answer, error), done func() float64, line func() string) (answer, error) {
	type result struct {
		answer
		error
	}
	ended := make(chan result, 1)
	go func() {
		a, err := call()
		ended <- result{a, err}
	}()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case r := <-ended:
			return r.answer, r.error
		case <-tick.C:
			p.flow(done(), line)
		}
	}
}

// end leaves the line of a bar that was shown.
func (p *progress) end(err error) error {
	if p.c.terminal && p.shown != "" {
		fmt.Fprintln(p.c.stderr)
	}
	p.shown = ""
	return err
}

func (p *progress) bar(done float64) string {
	if done < 0 { // a block that wanders
		at := p.turns % (barWidth - 2)
		p.turns++
		return strings.Repeat("░", at) + "███" + strings.Repeat("░", barWidth-3-at)
	}
	full := strings.Repeat("█", int(barWidth*done))
	return full + strings.Repeat("░", barWidth-utf8.RuneCountInString(full))
}

// share is part of whole, 0 to 1; nothing of nothing is 0.
func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, float64(part)/float64(whole)))
}

// sizeOf writes a number of bytes for people.
func sizeOf(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
}
