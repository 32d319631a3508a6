package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
)

// metric is one measured value.
type metric struct {
	name  string
	value float64
}

// series are the values of one metric, or of one process, over the repetitions.
type series struct {
	of, name string // the case, and the metric or process
	values   []float64
	peak     int64 // of a process: most resident memory, bytes
}

// report collects what was measured and prints it.
type report struct {
	database string
	speeds   []*series
	costs    []*series
	notes    [][]string // rows of the history table
	growth   []way
	asked    []asked
}

// add takes in one repetition of a case.
func (r *report) add(name string, got outcome, before, after costs) {
	for _, m := range got.metrics {
		s := find(&r.speeds, name, m.name)
		s.values = append(s.values, m.value)
	}
	var processes []string
	for process := range after {
		processes = append(processes, process)
	}
	slices.Sort(processes)
	var all float64
	for _, process := range processes {
		s := find(&r.costs, name, process)
		spent := (after[process].cpu - before[process].cpu).Seconds() * 1000 / float64(got.deliveries)
		s.values = append(s.values, spent)
		s.peak = max(s.peak, after[process].peak)
		all += spent
	}
	if len(processes) > 1 {
		s := find(&r.costs, name, allProcesses)
		s.values = append(s.values, all)
	}
}

// allProcesses is the sum of what they cost, the bench's own receiver and clients
// included.
const allProcesses = "all of them"

func find(all *[]*series, of, name string) *series {
	for _, s := range *all {
		if s.of == of && s.name == name {
			return s
		}
	}
	s := &series{of: of, name: name}
	*all = append(*all, s)
	return s
}

// spread is least, median and most.
func (s *series) spread() (least, median, most float64) {
	v := slices.Sorted(slices.Values(s.values))
	n := len(v)
	return v[0], (v[(n-1)/2] + v[n/2]) / 2, v[n-1]
}

// print prints the tables that have rows.
func (r *report) print(w io.Writer, o options) {
	if len(r.speeds)+len(r.notes)+len(r.growth)+len(r.asked) == 0 {
		return
	}
	how := map[string]string{rolesAll: "one process", rolesServe: "waypost serve", rolesSplit: "waypost gateway and waypost worker"}[o.roles]
	fmt.Fprintf(w, "Waypost on %d CPUs, %s, %s\n", runtime.NumCPU(), how, r.database)
	if len(r.speeds) > 0 {
		fmt.Fprintf(w, "launches of %d leads, retries after %s; min, median and max of up to %d runs\n", o.leads, strings.Join(o.retry, ", "), o.repeat)
	}
	var rows [][]string
	for _, s := range r.speeds {
		least, median, most := s.spread()
		rows = append(rows, []string{s.of, s.name, number(least), number(median), number(most)})
	}
	table(w, []string{"case", "measure", "min", "median", "max"}, 2, rows)
	rows = nil
	for _, s := range r.costs {
		least, median, most := s.spread()
		peak := "–"
		if s.peak > 0 {
			peak = fmt.Sprintf("%d", s.peak>>20)
		}
		rows = append(rows, []string{s.of, s.name, number(least), number(median), number(most), peak})
	}
	table(w, []string{"case", "CPU-s per 1,000", "min", "median", "max", "peak MiB"}, 2, rows)
	r.shares(w)
	table(w, []string{"history", "of", "count", "events", "per lead and node", "bytes", "bytes per lead"}, 2, r.notes)
	rows = nil
	for _, w := range r.growth {
		for _, p := range w.points {
			rows = append(rows, []string{w.name, fmt.Sprint(p.at), fmt.Sprint(p.deliveries), number(p.cpu.Seconds()),
				number(p.cpu.Seconds() * 1000 / float64(p.deliveries)), number(float64(p.deliveries) / p.took.Seconds())})
		}
	}
	table(w, []string{"growth", "at", "deliveries", "CPU-s", "CPU-s per 1,000", "deliveries/s"}, 1, rows)
	rows = nil
	for _, a := range r.asked {
		within := "–"
		if a.within > 0 {
			within = fmt.Sprint(a.within)
		}
		rows = append(rows, []string{a.of, a.what, fmt.Sprint(len(a.took)), number(quantile(a.took, 0.5)), number(quantile(a.took, 0.99)), number(quantile(a.took, 1)), within})
	}
	table(w, []string{"asked of " + fmt.Sprint(o.asking), "for", "calls", "p50 ms", "p99 ms", "max ms", "p99 to be within"}, 2, rows)
}

// shares compares launches with what the same bytes cost without Waypost.
func (r *report) shares(w io.Writer) {
	values := func(of, name string) []float64 {
		for _, s := range r.speeds {
			if s.of == of && s.name == name {
				return s.values
			}
		}
		return nil
	}
	launches := values(caseLaunch, "deliveries/s")
	var rows [][]string
	for _, base := range []string{caseBatch, caseBare} {
		var share series // of each round
		for i, posts := range values(base, "POSTs/s") {
			if i < len(launches) {
				share.values = append(share.values, launches[i]/posts)
			}
		}
		if len(share.values) > 0 {
			least, median, most := share.spread()
			rows = append(rows, []string{caseLaunch, base, number(least), number(median), number(most)})
		}
	}
	table(w, []string{"case", "as a share of", "min", "median", "max"}, 2, rows)
}

// number shows a value with about three figures.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// table prints rows in columns; those from the column right on are numbers.
func table(w io.Writer, head []string, right int, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	widths := make([]int, right)
	for _, row := range append([][]string{head}, rows...) {
		for i := range right {
			widths[i] = max(widths[i], len([]rune(row[i])))
		}
	}
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, row := range append([][]string{head}, rows...) {
		for i := range right {
			row[i] += strings.Repeat(" ", widths[i]-len([]rune(row[i])))
		}
		fmt.Fprintln(tw, strings.Join(row, "\t")+"\t")
	}
	_ = tw.Flush()
}
