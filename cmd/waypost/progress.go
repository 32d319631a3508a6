package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// progress shows a progress on standard error: as a bar on a terminal, as lines elsewhere.
type progress struct {
	c     *cli
	shown string
	drawn time.Time
	turns int
}

const (
	barWidth = 20
	// redraw is the least time between two drawings of a bar by flow.
	redraw = 100 * time.Millisecond
	// unknown stands for the done part where the total is not known.
	unknown = -1
)

// show draws the bar or writes the line, if the line has changed. done is 0 to 1, or
// unknown.
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

// flow is show for values that change many times a second: it draws on terminals only, at most once
// in redraw.
func (p *progress) flow(done float64, line func() string) {
	if p.c.terminal && time.Since(p.drawn) >= redraw {
		p.show(done, line())
	}
}

// during makes a call, and shows its progress meanwhile.
func (p *progress) during(call func() (answer, error), done func() float64, line func() string) (answer, error) {
	var a answer
	var err error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a, err = call()
	}()
	tick := time.NewTicker(redraw)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return a, err
		case <-tick.C:
			p.flow(done(), line)
		}
	}
}

// end ends the line of a bar, and returns err.
func (p *progress) end(err error) error {
	if p.c.terminal && p.shown != "" {
		fmt.Fprintln(p.c.stderr)
	}
	p.shown = ""
	return err
}

func (p *progress) bar(done float64) string {
	if done < 0 { // a moving block
		at := p.turns % (barWidth - 2)
		p.turns++
		return strings.Repeat("░", at) + "███" + strings.Repeat("░", barWidth-3-at)
	}
	full := strings.Repeat("█", int(barWidth*done))
	return full + strings.Repeat("░", barWidth-utf8.RuneCountInString(full))
}

// share is part of whole, 0 to 1; 0 if whole is 0.
func share(part, whole int64) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, float64(part)/float64(whole)))
}

// counts are numbers of things, of which people see those that are not 0.
type counts []struct {
	n    int
	what string
}

// String writes each with a comma before it: ", 2 failed, 1 skipped".
func (cs counts) String() string {
	var b strings.Builder
	for _, c := range cs {
		if c.n > 0 {
			fmt.Fprintf(&b, ", %d %s", c.n, c.what)
		}
	}
	return b.String()
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
