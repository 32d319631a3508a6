package faults

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"
)

// row is what the table tells of a case.
type row struct {
	name        string
	enrollments int // accepted
	deliveries  int // recorded
	posts       int // in the receivers' ledgers
	inFlight    int // attempts that a kill, or the receiver going down, cut off: so many duplicates are allowed
	duplicates  int // POSTs of messages that the receiver had taken before
	lost        int // messages that no receiver has taken
	resumed     time.Duration
	latency     latency
	faults      []string // what is not as it should be; "" counts none
}

// latency is how long after its request a single enrollment's message arrived.
type latency struct{ p50, p99 time.Duration }

// percentiles of what was measured.
func percentiles(of []time.Duration) latency {
	if len(of) == 0 {
		return latency{}
	}
	sorted := slices.Sorted(slices.Values(of))
	at := func(share float64) time.Duration { return sorted[min(len(sorted)-1, int(share*float64(len(sorted))))] }
	return latency{at(0.50), at(0.99)}
}

var table struct {
	sync.Mutex
	rows []*row
}

func addRow(name string) *row {
	table.Lock()
	defer table.Unlock()
	r := &row{name: name}
	table.rows = append(table.rows, r)
	return r
}

// printTable prints a line for each case that ran.
func printTable(w io.Writer) {
	table.Lock()
	defer table.Unlock()
	if len(table.rows) == 0 {
		return
	}
	number := func(d time.Duration, unit time.Duration, digits int) string {
		if d == 0 {
			return "–"
		}
		return strconv.FormatFloat(float64(d)/float64(unit), 'f', digits, 64)
	}
	fmt.Fprintln(w)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "enrollments\tdeliveries\tPOSTs\tin flight\tduplicates\tlost\tresumed s\tp50 ms\tp99 ms\tverdict\t  case")
	for _, r := range table.rows {
		verdict := "ok"
		if len(r.faults) > 0 {
			verdict = "FAILED"
		}
		cells := []string{}
		for _, n := range []int{r.enrollments, r.deliveries, r.posts, r.inFlight, r.duplicates, r.lost} {
			cells = append(cells, strconv.Itoa(n))
		}
		cells = append(cells, number(r.resumed, time.Second, 1), number(r.latency.p50, time.Millisecond, 0), number(r.latency.p99, time.Millisecond, 0), verdict)
		fmt.Fprintln(out, strings.Join(cells, "\t")+"\t  "+r.name)
	}
	_ = out.Flush()
	for _, r := range table.rows {
		for i, f := range r.faults {
			if i == maxFaults {
				fmt.Fprintf(w, "%s: and %d more\n", r.name, len(r.faults)-i)
				break
			}
			fmt.Fprintf(w, "%s: %s\n", r.name, f)
		}
	}
}

// maxFaults bounds what is told of a case.
const maxFaults = 10
