package main

import (
	"context"
	"fmt"
	"image/color"
	"os"
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

const (
	growthPart  = 2 // of growthLeads: how many leads the nodes and the retries are measured with
	growthTries = 2 // of which the cheaper one counts: others use the machine, too
)

// way is what a cost grows with.
type way struct {
	name   string
	points []point
}

// point is one measurement: what the launch cost altogether, and how long it took.
type point struct {
	at         int
	deliveries int
	cpu, took  time.Duration
}

// grow measures launches of growing size, and draws what they cost.
func (b *bench) grow(ctx context.Context) error {
	sizes := make([]int, len(growthLeads))
	for i, part := range growthLeads {
		sizes[i] = max(1, b.o.leads/part)
		if err := b.importLeads(ctx, growthGroups[i], sizes[i]); err != nil {
			return err
		}
	}
	if err := b.warm(ctx, 0); err != nil {
		return err
	}
	group, size := growthGroups[growthPart], sizes[growthPart]
	leads, nodes, fails := way{name: "leads"}, way{name: "touchpoints"}, way{name: "% failing"}
	for i, n := range sizes {
		if err := b.measurePoint(ctx, &leads, n, chain(1), growthGroups[i], n, script{}, 1); err != nil {
			return err
		}
	}
	for _, n := range growthNodes {
		if err := b.measurePoint(ctx, &nodes, n, chain(n), group, size, script{}, n); err != nil {
			return err
		}
	}
	for _, percent := range growthFails {
		if err := b.measurePoint(ctx, &fails, percent, chain(1), group, size, script{fail: percent}, 1); err != nil {
			return err
		}
	}
	ways := []way{leads, nodes, fails}
	b.report.growth = ways
	if b.o.plot == "" {
		return nil
	}
	if err := drawWays(b.o.plot, ways, fmt.Sprintf("%d leads each", size)); err != nil {
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

// measurePoint launches a journey of so many touchpoints to a group of leads.
func (b *bench) measurePoint(ctx context.Context, w *way, at int, definition string, group, leads int, s script, touchpoints int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, caseTime, fmt.Errorf("it takes longer than %s", caseTime))
	defer cancel()
	best := point{at: at, deliveries: leads * touchpoints}
	for try := range growthTries {
		b.tell("growth: %d %s, %d of %d", at, w.name, try+1, growthTries)
		t, err := b.prepare(ctx, definition, s)
		if err != nil {
			return err
		}
		before, began := look(b.stack.watched), time.Now()
		l, err := b.startLaunch(ctx, t.journeyID, group)
		if err != nil {
			return err
		}
		if err := b.awaitLaunch(ctx, l, t, best.deliveries); err != nil {
			return err
		}
		took, after := time.Since(began), look(b.stack.watched)
		if err := b.check(ctx, t, best.deliveries); err != nil {
			return err
		}
		var spent time.Duration
		for process, c := range after {
			if process != self { // the receiver
				spent += c.cpu - before[process].cpu
			}
		}
		if try == 0 || spent < best.cpu {
			best.cpu, best.took = spent, took
		}
	}
	w.points = append(w.points, best)
	return nil
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
