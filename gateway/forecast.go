package gateway

import (
	"context"
	"iter"
	"math/rand/v2"
	"time"

	"waypost"
	"waypost/journey"
)

// Bounds of a forecast.
const (
	maxForecastSample   = 1000 // leads
	maxForecastDays     = 366
	defaultForecastDays = 30
)

type forecastBody struct {
	choiceBody
	Audience *audienceBody `json:"audience"`
	Days     *int          `json:"days"`
}

// forecastAnswer says what a journey would send to an audience.
type forecastAnswer struct {
	JourneyID string        `json:"journeyId"`
	Version   int           `json:"version"`
	Draft     bool          `json:"draft"`
	StartAt   string        `json:"startAt"`
	Total     int           `json:"total"`  // leads of the audience
	Sample    int           `json:"sample"` // of them, that were followed
	Cut       int           `json:"cut"`    // of these, that were not followed to the end
	HeldOut   int           `json:"heldOut"`
	Goal      *forecastGoal `json:"goal"` // nil without one
	Days      []forecastDay `json:"days"`
}

// forecastGoal says how many leads would convert if they are as earlier enrollments with the same goal.
type forecastGoal struct {
	Leads       int  `json:"leads"`       // of the audience, without test leads and those who are held out
	Enrollments int  `json:"enrollments"` // the earlier ones
	Converted   int  `json:"converted"`   // of them
	Expected    *int `json:"expected"`    // nil of fewer than waypost.LeastLeads, as the bounds
	Low         *int `json:"low"`
	High        *int `json:"high"`
	// Confidence is that of the bounds.
	Confidence float64 `json:"confidence"`
}

// forecastDay is what would be sent on a day in UTC, of the whole audience.
type forecastDay struct {
	Date        string         `json:"date"`
	Touchpoints map[string]int `json:"touchpoints"` // by the webhook's id
	Skipped     int            `json:"skipped"`     // see waypost.SkipReasons
}

func (a *server) decodeForecast(r *request) (body forecastBody, audience waypost.Audience, days int, err error) {
	days = defaultForecastDays
	err = decodeLong(r.body, &body, func(p *waypost.Problems, leadsIDs []byte) {
		body.check(p)
		audience = a.audience(p, body.Audience, leadsIDs)
		if body.Days != nil {
			if days = *body.Days; days < 1 || days > maxForecastDays {
				p.Add(waypost.DetailOutOfRange, "days", "must be 1 to %d", maxForecastDays)
			}
		}
	})
	return body, audience, days, err
}

// forecast tells what a launch to an audience would send, day by day. It follows a
// sample; what that gets is scaled to the whole audience.
func (a *server) forecast(ctx context.Context, r *request) (answer, error) {
	body, audience, days, err := a.decodeForecast(r)
	if err != nil {
		return answer{}, err
	}
	c, err := a.choose(ctx, r, body.choiceBody)
	if err != nil {
		return answer{}, err
	}
	now := a.Now()
	outlook, total, err := a.outlook(ctx, r, c, audience, journey.ForecastOptions{Start: now, Days: days})
	if err != nil {
		return answer{}, err
	}
	ans := forecastAnswer{
		JourneyID: c.journeyID, Version: c.version, Draft: c.draft, StartAt: stamp(now),
		Total: total, Sample: outlook.Leads, Cut: outlook.Cut, Days: make([]forecastDay, len(outlook.Days)),
	}
	scale := func(n int) int { return (n*ans.Total + ans.Sample/2) / max(1, ans.Sample) }
	ans.HeldOut = scale(outlook.HeldOut)
	if ans.Goal, err = a.forecastGoal(ctx, r, c, ans.Total-scale(outlook.HeldOut+outlook.Tests), now); err != nil {
		return answer{}, err
	}
	for i, d := range outlook.Days {
		ans.Days[i] = forecastDay{d.Date, map[string]int{}, scale(d.Skipped)}
		for webhook, n := range d.Touchpoints {
			ans.Days[i].Touchpoints[webhook] = scale(n)
		}
	}
	return ok(ans)
}

// outlook follows a sample of an audience, which has so many leads in total.
func (a *server) outlook(ctx context.Context, r *request, c choice, audience waypost.Audience, o journey.ForecastOptions) (out journey.Outlook, total int, err error) {
	if o.Winners, err = a.winners(ctx, c); err != nil {
		return out, 0, err
	}
	hooks, err := a.webhooksOf(ctx, r, c)
	if err != nil {
		return out, 0, err
	}
	err = a.simulations.run(ctx, r.app, simulationWait, simulationTime, func(ctx context.Context) (err error) {
		var leads []waypost.Lead
		if leads, total, err = a.Leads.SampleAudience(ctx, r.scope, audience, o.Start, maxForecastSample); err != nil {
			return err
		}
		ids := make([]int64, len(leads))
		for i, lead := range leads {
			ids[i] = lead.LeadsID
		}
		records, rules, err := a.recordsOf(ctx, r, c, ids, o.Start)
		if err != nil {
			return err
		}
		facts := func(lead waypost.Lead) journey.Facts {
			f := c.facts(lead)
			f.Record, f.Segments = records[lead.LeadsID], rules
			return f
		}
		if o.Unwanted, err = a.unwanted(ctx, hooks, leads); err != nil {
			return err
		}
		began := time.Now()
		enough := func() bool { return time.Since(began) > simulationTime/2 }
		out, err = journey.Forecast(ctx, c.Definition, sampled(leads, facts, enough), o)
		return err
	})
	return out, total, err
}

// forecastGoal says how many of so many leads would convert. It goes by the whole days (UTC)
// of a year whose enrollments can convert no more, in versions with the same goal.
func (a *server) forecastGoal(ctx context.Context, r *request, c choice, leads int, now time.Time) (*forecastGoal, error) {
	goal, has := c.Goal()
	if !has {
		return nil, nil
	}
	day := waypost.StatisticsDay.Duration()
	to := now.Add(-goal.Within).UTC().Truncate(day)
	st, err := a.Journeys.Statistics(ctx, waypost.StatisticsQuery{JourneyID: c.journeyID, From: to.Add(-365 * day), To: to, Span: waypost.StatisticsDay})
	if err != nil {
		return nil, err
	}
	var counted waypost.GoalSum
	for version, counts := range within(st.Series) {
		d, err := a.definition(ctx, r.scope, c.journeyID, version)
		if err != nil {
			return nil, err
		}
		if c.SameGoal(d) {
			counted.Add(counts.Goal.Since(to.Add(-365*day)).GoalSum, 1)
		}
	}
	ans := &forecastGoal{Leads: leads, Enrollments: counted.Leads, Converted: counted.Converted, Confidence: waypost.LiftConfidence}
	if e, ok := counted.Expect(leads); ok {
		ans.Expected, ans.Low, ans.High = &e.Converted, &e.Low, &e.High
	}
	return ans, nil
}

// sampled gives the leads until enough, but at least one, in a random order that is always
// the same: however many there are, they are a sample.
func sampled(leads []waypost.Lead, facts func(waypost.Lead) journey.Facts, enough func() bool) iter.Seq2[journey.Facts, error] {
	return func(yield func(journey.Facts, error) bool) {
		for i, at := range rand.New(rand.NewPCG(1, 2)).Perm(len(leads)) {
			if i > 0 && enough() || !yield(facts(leads[at]), nil) {
				return
			}
		}
	}
}
