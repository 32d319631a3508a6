package waypost_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"waypost"
)

// Time stands still in pauses that were resumed with shift.
func TestControlsDue(t *testing.T) {
	t.Parallel()
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	at := func(hours int) time.Time { return zero.Add(time.Duration(hours) * time.Hour) }
	pause := func(from, until int, shift bool) waypost.Control {
		return waypost.Control{Kind: waypost.ControlPause, From: at(from), Until: at(until), Shift: shift}
	}
	tests := map[string]struct {
		controls       waypost.Controls
		since, planned int
		want           int
	}{
		"no pause":                    {nil, 0, 10, 10},
		"before it":                   {waypost.Controls{pause(-5, -2, true)}, 0, 10, 10},
		"after it":                    {waypost.Controls{pause(10, 12, true)}, 0, 10, 10},
		"within":                      {waypost.Controls{pause(2, 5, true)}, 0, 10, 13},
		"within, skipped":             {waypost.Controls{pause(2, 5, false)}, 0, 10, 10},
		"beyond its end":              {waypost.Controls{pause(2, 50, true)}, 0, 10, 58},
		"begun while paused":          {waypost.Controls{pause(-3, 4, true)}, 0, 10, 14},
		"two":                         {waypost.Controls{pause(20, 21, true), pause(2, 15, true)}, 0, 10, 24},
		"two that overlap":            {waypost.Controls{pause(2, 6, true), pause(4, 8, true)}, 0, 10, 16},
		"one inside another":          {waypost.Controls{pause(2, 8, true), pause(3, 4, true)}, 0, 10, 16},
		"only one of them with shift": {waypost.Controls{pause(2, 6, true), pause(4, 8, false)}, 0, 10, 14},
		"no time to wait":             {waypost.Controls{pause(-1, 4, true)}, 0, 0, 4},
		"one that lasts":              {waypost.Controls{{Kind: waypost.ControlPause, From: at(1)}}, 0, 10, 10},
		"a cancel":                    {waypost.Controls{{Kind: waypost.ControlCancel, From: at(1)}}, 0, 10, 10},
	}
	for name, tt := range tests {
		if got := tt.controls.Due(at(tt.since), at(tt.planned)); !got.Equal(at(tt.want)) {
			t.Errorf("%s: due at %s, want %s", name, got.Sub(zero), at(tt.want).Sub(zero))
		}
	}
}

// Due and PausedTime agree with counting second by second.
func TestControlsAgainstCounting(t *testing.T) {
	t.Parallel()
	zero := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var controls waypost.Controls
		var stopped, paused [200]bool
		for range r.IntN(5) {
			from := r.IntN(100)
			until := from + r.IntN(30)
			c := waypost.Control{
				Kind: waypost.ControlPause, From: zero.Add(time.Duration(from) * time.Second),
				Until: zero.Add(time.Duration(until) * time.Second), Shift: r.IntN(2) == 0,
			}
			controls = append(controls, c)
			for s := from; s < until; s++ {
				paused[s] = true
				stopped[s] = stopped[s] || c.Shift
			}
		}
		since := r.IntN(60)
		wait := 1 + r.IntN(50)
		due, left := since, wait
		for ; left > 0; due++ {
			if !stopped[due] {
				left--
			}
		}
		begin := zero.Add(time.Duration(since) * time.Second)
		if got := controls.Due(begin, begin.Add(time.Duration(wait)*time.Second)); got.Sub(zero) != time.Duration(due)*time.Second {
			t.Fatalf("seed %d: due after %s, counted %ds: %+v", seed, got.Sub(zero), due, controls)
		}
		count := 0
		for s := since; s < since+wait; s++ {
			if paused[s] {
				count++
			}
		}
		if got := controls.PausedTime(begin, begin.Add(time.Duration(wait)*time.Second)); got != time.Duration(count)*time.Second {
			t.Fatalf("seed %d: paused for %s, counted %ds", seed, got, count)
		}
	}
}

// What lasts is held, what was canceled first counts.
func TestControlsStanding(t *testing.T) {
	t.Parallel()
	now := time.Now()
	c := waypost.Controls{
		{Target: "jrn_1", Kind: waypost.ControlPause, From: now, Until: now.Add(time.Hour)},
		{Target: "lch_1", Kind: waypost.ControlPause, From: now},
		{Target: "jrn_1", Kind: waypost.ControlCancel, From: now.Add(time.Hour)},
		{Target: "enr_1", Kind: waypost.ControlCancel, From: now.Add(time.Minute)},
	}
	if holds := c.Holds(); len(holds) != 1 || holds[0] != "lch_1" {
		t.Errorf("holds %q", holds)
	}
	if at, ok := c.Canceled(); !ok || !at.Equal(now.Add(time.Minute)) {
		t.Errorf("canceled %v at %s", ok, at)
	}
	if got := c.PausedTime(now, now.Add(3*time.Hour)); got != 3*time.Hour {
		t.Errorf("paused for %s", got)
	}
	if _, ok := (waypost.Controls{}).Canceled(); ok {
		t.Error("nothing is canceled")
	}
}
