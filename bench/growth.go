package main

import (
	"cmp"
	"context"
	"fmt"
	"image/color"
	"os"
	"slices"
	"strings"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// What a launch costs is measured along three ways: with more leads, more touchpoints
// one after the other, and more first attempts that fail.
var (
	growthLeads  = []int{20, 8, 4, 2, 1} // parts of --leads
	growthNodes  = []int{1, 2, 4, 8}
	growthFails  = []int{0, 10, 20, 40} // percent
	growthGroups = []int{5, 6, 7, 8, 9} // of leads, one for each of growthLeads
)

// growthPart is the part of growthLeads with which the nodes and the retries are measured.
const growthPart = 2

// way is what a cost grows with.
type way struct {
	name   string
	of     []growing
	points []point
}

// growing is a launch: to a group of so many leads, who get so many messages each, of
// whose first attempts some fail.
type growing struct{ group, leads, touchpoints, fails int }

// point is one measurement: what the launch cost altogether, and how long it took.
type point struct {
	at         int
	deliveries int
	cpu, took  time.Duration
}

// grow measures launches of growing size, and draws what they cost. What belongs to
// several ways is measured once for all of them.
func (b *bench) grow(ctx context.Context) error {
	leads, nodes, fails := way{name: "leads"}, way{name: "touchpoints"}, way{name: "% failing"}
	for i, part := range growthLeads {
		n := max(1, b.o.leads/part)
		if err := b.importLeads(ctx, growthGroups[i], n); err != nil {
			return err
		}
		leads.of, leads.points = append(leads.of, growing{growthGroups[i], n, 1, 0}), append(leads.points, point{at: n})
	}
	if err := b.warm(ctx, 0); err != nil {
		return err
	}
	for _, n := range growthNodes {
		l := leads.of[growthPart]
		l.touchpoints = n
		nodes.of, nodes.points = append(nodes.of, l), append(nodes.points, point{at: n})
	}
	for _, percent := range growthFails {
		l := leads.of[growthPart]
		l.fails = percent
		fails.of, fails.points = append(fails.of, l), append(fails.points, point{at: percent})
	}
	ways := []way{leads, nodes, fails}
	measured := map[growing][]point{}
	for try := range b.o.repeat { // in turns; the median counts: others use the machine, too
		for _, w := range ways {
			for i, l := range w.of {
				if len(measured[l]) > try {
					continue
				}
				b.tell("growth: %d %s, %d of %d", w.points[i].at, w.name, try+1, b.o.repeat)
				p, err := b.measurePoint(ctx, l)
				if err != nil {
					return err
				}
				measured[l] = append(measured[l], p)
			}
		}
	}
	for _, w := range ways {
		for i, l := range w.of {
			tries := slices.SortedFunc(slices.Values(measured[l]), func(a, b point) int { return cmp.Compare(a.cpu, b.cpu) })
			at := w.points[i].at
			w.points[i] = tries[len(tries)/2]
			w.points[i].at = at
		}
	}
	b.report.growth = ways
	if b.o.plot == "" {
		return nil
	}
	if err := drawWays(b.o.plot, ways, fmt.Sprintf("%d leads each", leads.of[growthPart].leads)); err != nil {
		return fmt.Errorf("draw %s: %w", b.o.plot, err)
	}
	b.tell("drew %s", b.o.plot)
	return nil
}

// chain is a journey of n touchpoints, one right after the other.
func chain(n int) string {
	var nodes []string
	for i := range n {
		next := ""
		if i+1 < n {
			next = fmt.Sprintf(`,"next":"n%d"`, i+1)
		}
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","type":"touchpoint","webhook":%%[1]q,"params":{"greeting":"Hello {{ lead.name }}"}%s}`, i, next))
	}
	return fmt.Sprintf(`{"name":"Chain","start":"n0","nodes":[%s]}`, strings.Join(nodes, ","))
}

// measurePoint launches a journey.
func (b *bench) measurePoint(ctx context.Context, of growing) (point, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, caseTime, fmt.Errorf("it takes longer than %s", caseTime))
	defer cancel()
	p := point{deliveries: of.leads * of.touchpoints}
	t, err := b.prepare(ctx, chain(of.touchpoints), script{fail: of.fails})
	if err != nil {
		return p, err
	}
	if err := b.stack.postgres.vacuum(ctx); err != nil {
		return p, err
	}
	before, began := look(b.stack.watched), time.Now()
	l, err := b.startLaunch(ctx, t.journeyID, of.group)
	if err != nil {
		return p, err
	}
	if err := b.awaitLaunch(ctx, l, t, p.deliveries); err != nil {
		return p, err
	}
	took, after := time.Since(began), look(b.stack.watched)
	for process, c := range after {
		if process != self { // the receiver
			p.cpu += c.cpu - before[process].cpu
		}
	}
	p.took = took
	return p, b.check(ctx, t, p.deliveries)
}

// drawWays writes an SVG with one plot for each way, beside each other; others is the
// title of all but the first.
func drawWays(path string, ways []way, others string) error {
	const width, height = 30 * vg.Centimeter, 9 * vg.Centimeter
	row := make([]*plot.Plot, len(ways))
	for i, w := range ways {
		p := plot.New()
		p.X.Label.Text, p.Y.Label.Text = w.name, "CPU seconds"
		if i > 0 {
			p.Title.Text = others
		}
		p.X.Min, p.Y.Min = 0, 0
		points := make(plotter.XYs, len(w.points))
		for j, at := range w.points {
			points[j].X, points[j].Y = float64(at.at), at.cpu.Seconds()
		}
		line, dots, err := plotter.NewLinePoints(points)
		if err != nil {
			return err
		}
		line.Color, dots.Color, dots.Shape = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}, draw.CircleGlyph{}
		p.Add(plotter.NewGrid(), line, dots)
		p.Y.Max *= 1.1
		row[i] = p
	}
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: 1, Cols: len(ways), PadX: vg.Centimeter, PadTop: vg.Millimeter * 3, PadBottom: vg.Millimeter * 3, PadLeft: vg.Millimeter * 3, PadRight: vg.Millimeter * 5}
	for i, part := range plot.Align([][]*plot.Plot{row}, tiles, draw.New(canvas))[0] {
		row[i].Draw(part)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if _, err := canvas.WriteTo(f); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
