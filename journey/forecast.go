package journey

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"waypost"
)

// ForecastOptions say when a forecast begins and how far it looks.
type ForecastOptions struct {
	Start time.Time // when all leads enroll
	Days  int       // calendar days, the first is Start's: 1 to 366, 30 if 0
	// Location is where the days begin and end; nil is UTC.
	Location *time.Location
	Winners  map[string]int // the arms that take everybody, by the ids of their splits
	// Unwanted is as in SimulateOptions.
	Unwanted func(webhookID string, lead waypost.Lead) (reason string)
}

// Outlook is what a journey will send to some leads.
type Outlook struct {
	Leads int          `json:"leads"`
	Days  []OutlookDay `json:"days"`
	Cut   int          `json:"cut"` // leads that took DefaultSteps steps and were followed no further
	// HeldOut counts leads of the journey's control group, of whom nothing more is counted.
	HeldOut int `json:"heldOut"`
	// Tests counts test leads: a goal does not count them, and a control group never holds them out.
	Tests int `json:"tests"`
}

// OutlookDay is what a journey will send on one day.
type OutlookDay struct {
	Date        string         `json:"date"`        // 2026-12-31
	Touchpoints map[string]int `json:"touchpoints"` // by the webhook's id
	Skipped     int            `json:"skipped"`     // see waypost.SkipReasons
}

// Forecast simulates a journey for leads that all enroll at the start, and counts
// the touchpoints of each day. It renders no params, and assumes that every message
// succeeds and that no event ever comes, so that waits for events time out; the
// frequency cap counts this journey's touchpoints only. Each lead is one of the sample; the
// caller scales.
//
// It ends with the first error of leads, and fails where Simulate does.
func Forecast(ctx context.Context, d *Definition, leads iter.Seq2[Facts, error], o ForecastOptions) (Outlook, error) {
	loc, days := cmp.Or(o.Location, time.UTC), cmp.Or(o.Days, 30)
	if days < 1 || days > 366 {
		return Outlook{}, fmt.Errorf("forecast journey: %d days, not 1 to 366", days)
	}
	first := dayOf(o.Start.In(loc))
	period := waypost.FirstAt(first.add(days).Time, loc).Sub(o.Start) - 1 // the next day does not count
	out := Outlook{Days: make([]OutlookDay, days)}
	for i := range out.Days {
		out.Days[i] = OutlookDay{Date: first.add(i).Format(time.DateOnly), Touchpoints: map[string]int{}}
	}
	dayAt := func(t time.Time) *OutlookDay { return &out.Days[int(dayOf(t.In(loc)).Sub(first.Time)/(24*time.Hour))] }
	for facts, err := range leads {
		if err != nil {
			return Outlook{}, fmt.Errorf("forecast journey: %w", err)
		}
		out.Leads++
		if facts.Lead.Test {
			out.Tests++
		} else if waypost.HeldOut(facts.JourneyID, facts.Lead.LeadsID, d.ControlGroup()) {
			out.HeldOut++
			continue
		}
		run, err := Simulate(ctx, d, SimulateOptions{Facts: facts, Start: o.Start, Period: period, Winners: o.Winners, Unwanted: o.Unwanted, quick: true})
		if err != nil {
			return Outlook{}, fmt.Errorf("forecast journey: %w", err)
		}
		if run.Limit == LimitSteps {
			out.Cut++
		}
		for _, t := range run.Touchpoints {
			dayAt(t.At).Touchpoints[t.WebhookID]++
		}
		for _, step := range run.Path {
			if step.Type == Touchpoint && step.Result == "skipped" {
				dayAt(step.Left).Skipped++
			}
		}
	}
	return out, nil
}
