package console

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"

	"waypost"
)

// forecastView is what the partial "forecast" shows.
type forecastView struct {
	Webhooks    []forecastWebhook // those with most messages first
	Days        []forecastRow
	Sample, Cut int64
	Period      int // in days
	Skipped     int64
	HeldOut     int64
	Goal        string // how many would reach it; "" without one
}

// forecastWebhook is a column: how many messages go through a webhook.
type forecastWebhook struct {
	Name, Tone string
	N          int64
	ids        []string
}

type forecastRow struct {
	Date         string
	N            []int64 // by webhook
	All, Skipped int64
}

// forecastTones are the colours of the webhooks; the last one stands for all the others.
var forecastTones = []string{"accent", "ok", "warn", "info", "bad"}

// shortestForecast is how many days a forecast shows at least; later days without messages at its end
// are left out.
const shortestForecast = 7

// forecastOf asks for a forecast, of which a share of the audience, 0 to 1, is left out.
func (v *visit) forecastOf(journeyID string, body map[string]any, leftOut float64) (*forecastView, error) {
	ctx := v.r.Context()
	var f forecast
	var webhooks names
	err := together(func() (err error) {
		f, err = v.gateway.forecast(ctx, journeyID, body)
		return err
	}, func() (err error) {
		webhooks, err = v.gateway.webhookNames(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	f = f.without(leftOut)
	view := newForecastView(f, webhooks)
	switch g := f.Goal; {
	case g == nil:
	case g.Expected == nil || g.Low == nil || g.High == nil:
		view.Goal = v.t("forecast.noGoal", "n", g.Enrollments)
	default:
		view.Goal = v.t("forecast.goal", "n", *g.Expected, "low", *g.Low, "high", *g.High, "enrollments", g.Enrollments, "converted", g.Converted)
	}
	if n := len(forecastTones); len(view.Webhooks) == n && len(view.Webhooks[n-1].ids) > 1 {
		view.Webhooks[n-1].Name = v.t("forecast.others")
	}
	return view, nil
}

// without is the forecast if a share of the audience is left out. The journey's control group and
// this share are drawn in the same way: the smaller one is a part of the larger one.
func (f forecast) without(share float64) forecast {
	enters := f.Total - f.HeldOut
	left := min(enters, int64(math.Round(float64(f.Total)*(1-share))))
	if left == enters {
		return f
	}
	rest := func(n int64) int64 { return int64(math.Round(float64(n) * float64(left) / float64(enters))) }
	f.HeldOut = f.Total - left
	if f.Goal != nil {
		g := *f.Goal
		g.Leads = rest(g.Leads)
		if e, ok := (waypost.GoalSum{Leads: g.Enrollments, Converted: g.Converted}).Expect(int(g.Leads)); ok {
			g.Expected, g.Low, g.High = &e.Converted, &e.Low, &e.High
		}
		f.Goal = &g
	}
	f.Days = slices.Clone(f.Days)
	for i := range f.Days {
		day := &f.Days[i]
		day.Touchpoints, day.Skipped = maps.Clone(day.Touchpoints), rest(day.Skipped)
		for id, n := range day.Touchpoints {
			day.Touchpoints[id] = rest(n)
		}
	}
	return f
}

// newForecastView orders webhooks by their messages. Webhooks beyond the chart's colours are summed
// in its last column. Days after the last message are left out, but for the first shortestForecast.
func newForecastView(f forecast, webhooks names) *forecastView {
	view := &forecastView{Sample: f.Sample, Cut: f.Cut, Period: len(f.Days), HeldOut: f.HeldOut}
	sums, last := map[string]int64{}, 0
	for i, day := range f.Days {
		for id, n := range day.Touchpoints {
			if sums[id] += n; n > 0 {
				last = i
			}
		}
		view.Skipped += day.Skipped
	}
	ids := slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	for i, id := range ids {
		if sums[id] == 0 {
			continue
		}
		if i < len(forecastTones) {
			view.Webhooks = append(view.Webhooks, forecastWebhook{Name: webhooks.Of(id), Tone: forecastTones[i]})
		}
		w := &view.Webhooks[len(view.Webhooks)-1]
		w.N += sums[id]
		w.ids = append(w.ids, id)
	}
	for _, day := range f.Days[:min(max(last+1, shortestForecast), len(f.Days))] {
		row := forecastRow{Date: day.Date, Skipped: day.Skipped, N: make([]int64, len(view.Webhooks))}
		for i, w := range view.Webhooks {
			for _, id := range w.ids {
				row.N[i] += day.Touchpoints[id]
			}
			row.All += row.N[i]
		}
		view.Days = append(view.Days, row)
	}
	return view
}

// forecastPage is what the journey would send if all leads entered now.
type forecastPage struct {
	Head     journeyHead
	Filters  filterBar
	Forecast *forecastView
	Problems []waypost.Detail
	Busy     bool // no forecast could be made at the moment
}

// forecastDays are the periods that can be chosen.
var forecastDays = []string{"30", "7", "90", "365"}

// showForecast shows what a journey would send. Faults of the definition and a gateway that
// computes too many forecasts already are shown on the page; other errors are returned.
func (v *visit) showForecast() error {
	h, err := v.loadDraft("forecast")
	if err != nil {
		return err
	}
	var days []option
	definitions := []option{{"true", v.t("try.draft")}}
	for _, n := range forecastDays {
		days = append(days, option{n, v.t("journey.span.day", "n", n)})
	}
	if h.Journey.PublishedVersion > 0 {
		definitions = append(definitions, option{"false", v.t("journeys.versionN", "n", h.Journey.PublishedVersion)})
	}
	data := forecastPage{Head: h, Filters: newFilterBar(v.r,
		filter{Name: "draft", Label: v.t("journeys.version"), Type: "select", Always: true, Options: definitions},
		filter{Name: "days", Label: v.t("forecast.period"), Type: "select", Always: true, Options: days},
		filter{Name: "leadsGroup", Label: v.t("launch.leadsGroup"), Type: "number"},
		filter{Name: "region", Label: v.t("launch.region"), Type: "number"},
	)}
	audience := map[string]any{}
	for _, f := range data.Filters.Filters[2:] {
		if n, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
			audience[f.Name] = n
		}
	}
	period, err := strconv.Atoi(cmp.Or(data.Filters.Filters[1].Value, forecastDays[0]))
	if err != nil {
		period = 0 // the gateway says what is allowed
	}
	body := map[string]any{"audience": map[string]any{"filter": audience}, "days": period, "draft": data.Filters.Filters[0].Value != "false"}
	data.Forecast, err = v.forecastOf(h.Journey.ID, body, 0)
	switch data.Problems = detailsOf(err); {
	case len(data.Problems) > 0:
	case waypost.CodeOf(err) == waypost.CodeServiceUnavailable:
		data.Busy = true
	case err != nil:
		return err
	}
	return v.editing(page{Name: "forecast", Title: v.t("forecast.title", "name", h.Journey.Name), Scripts: []string{"chart.js"}, Data: data}, h)
}
