package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"waypost"
)

// overviewPage is what goes on now, and what went wrong of late.
type overviewPage struct {
	Journeys  names // all of them, for their names
	Running   []journeyRow
	Launches  []launch // that run, wait for their time, or are paused, then others of today
	Today     int      // launches that were made today
	Standing  int64
	Waiting   []failureGroup // held back, or to be tried again
	Failing   []failureGroup // of the last hour
	Down      []downWebhook
	Webhooks  names
	Hours     []interval // of the last day, the newest first
	Delivered int
	Failed    int
	Nothing   bool         // there is no journey yet
	Active    []journeyRow // as many as the page asks for
	More      bool         // there are more
	Stalled   time.Time    // since when leads wait to be started, zero if none waits for long
}

// downWebhook is a webhook that takes no messages now.
type downWebhook struct {
	ID, Name string
	health
}

// Waits is how many deliveries wait for the webhook.
func (d downWebhook) Waits() int { return d.Waiting.Retrying + d.Waiting.Deferred }

// Bounds of the first page: what it shows, and what it asks for.
const (
	journeysShown = 8
	launchesShown = 8
	groupsShown   = 6
	webhooksAsked = 50 // each is two calls
)

func (v *visit) overview() error {
	ctx := v.r.Context()
	data, err := v.loadOverview(ctx)
	if err != nil {
		return err
	}
	return v.render(page{Name: "overview", Title: v.t("overview.title"), Place: "overview", Live: 10, Scripts: []string{"chart.js"}, Data: data})
}

func (v *visit) loadOverview(ctx context.Context) (data overviewPage, err error) {
	now := time.Now()
	hourAgo := now.Add(-time.Hour).UTC().Format(time.RFC3339)
	var active list[journey]
	byStatus := make([]list[launch], 3)
	var newest list[launch]
	waiting := make([][]failureCount, 2)
	var failing []failureCount
	calls := []func() error{
		func() (err error) {
			data.Journeys, err = v.gateway.journeyNames(ctx)
			return err
		},
		func() (err error) {
			data.Webhooks, err = v.gateway.webhookNames(ctx)
			return err
		},
		func() (err error) {
			active, err = v.gateway.listJourneys(ctx, url.Values{"status": {"active"}, "limit": {journeysOfPage}})
			return err
		},
		func() (err error) {
			newest, err = v.gateway.listLaunches(ctx, url.Values{"limit": {"100"}})
			return err
		},
		func() (err error) {
			data.Stalled, err = v.gateway.stalled(ctx, nil)
			return err
		},
		func() (err error) {
			failing, err = v.gateway.groupDeliveries(ctx, url.Values{"status": {"failed"}, "from": {hourAgo}})
			return err
		},
	}
	for i, status := range []string{"running", "paused", "scheduled"} {
		calls = append(calls, func() (err error) {
			byStatus[i], err = v.gateway.listLaunches(ctx, url.Values{"status": {status}, "limit": {"8"}})
			return err
		})
	}
	for i, status := range []string{"deferred", "retrying"} {
		calls = append(calls, func() (err error) {
			waiting[i], err = v.gateway.groupDeliveries(ctx, url.Values{"status": {status}, "groupBy": {waypost.GroupWebhookID}})
			return err
		})
	}
	if err := together(calls...); err != nil {
		return data, err
	}
	data.Nothing = len(data.Journeys) == 0
	for _, l := range byStatus {
		data.Launches = append(data.Launches, l.Items...)
	}
	data.More = active.NextCursor != ""
	year, month, day := now.In(v.chosen.Zone).Date()
	midnight := time.Date(year, month, day, 0, 0, 0, 0, v.chosen.Zone)
	for _, l := range newest.Items {
		if l.CreatedAt.Before(midnight) {
			continue
		}
		data.Today++
		if !slices.ContainsFunc(data.Launches, func(shown launch) bool { return shown.LaunchID == l.LaunchID }) {
			data.Launches = append(data.Launches, l)
		}
	}
	data.Launches = data.Launches[:min(len(data.Launches), launchesShown)]
	sums := map[string]*failureCount{}
	for _, groups := range waiting {
		for _, g := range groups {
			if sums[g.WebhookID] == nil {
				sums[g.WebhookID] = &failureCount{groupKey: groupKey{WebhookID: g.WebhookID}}
			}
			sums[g.WebhookID].Count += g.Count
		}
	}
	for _, g := range sums {
		data.Waiting = append(data.Waiting, failureGroup{failureCount: *g, Path: "/deliveries?status=retrying,deferred&webhookId=" + url.QueryEscape(g.WebhookID)})
	}
	slices.SortFunc(data.Waiting, func(a, b failureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.WebhookID, b.WebhookID))
	})
	data.Waiting = data.Waiting[:min(len(data.Waiting), groupsShown)]
	for _, g := range failing[:min(len(failing), groupsShown)] {
		query := g.query()
		query.Set("status", string(waypost.DeliveryFailed))
		query.Set("from", hourAgo)
		data.Failing = append(data.Failing, failureGroup{failureCount: g, Path: "/deliveries?" + query.Encode()})
	}
	return data, v.loadOverviewNumbers(ctx, &data, active.Items, now)
}

// loadOverviewNumbers reads the people of journeys, and the health and attempts of webhooks.
func (v *visit) loadOverviewNumbers(ctx context.Context, data *overviewPage, active []journey, now time.Time) error {
	rows := make([]journeyRow, len(active))
	var calls []func() error
	for i, j := range active {
		rows[i].journey = j
		calls = append(calls, func() error {
			s, err := v.gateway.statistics(ctx, j.ID, nil)
			rows[i].Counts = s.counts
			return unlessGone(err)
		})
	}
	since := url.Values{"from": {now.Add(-23 * time.Hour).UTC().Format(time.RFC3339)}, "every": {"hour"}}
	asked := data.Webhooks[:min(len(data.Webhooks), webhooksAsked)]
	down, hours := make([]downWebhook, len(asked)), make([][]interval, len(asked))
	for i, w := range asked {
		calls = append(calls, func() error {
			h, err := v.gateway.healthOf(ctx, w.ID)
			down[i] = downWebhook{w.ID, w.Name, h}
			if err != nil {
				down[i].Enabled, down[i].Breaker.State = true, "" // it is gone
			}
			return unlessGone(err)
		}, func() (err error) {
			hours[i], err = v.gateway.webhookHistory(ctx, w.ID, since)
			return unlessGone(err)
		})
	}
	if err := together(calls...); err != nil {
		return err
	}
	for _, r := range rows {
		data.Standing += r.Counts.Standing()
	}
	slices.SortStableFunc(rows, func(a, b journeyRow) int { return cmp.Compare(b.Counts.Standing(), a.Counts.Standing()) })
	data.Active = rows
	data.Running = rows[:min(len(rows), journeysShown)]
	for _, w := range down {
		if !w.Enabled || w.Breaker.State == "open" || w.Breaker.State == "halfOpen" {
			data.Down = append(data.Down, w)
		}
	}
	byHour := map[time.Time]*interval{}
	for _, series := range hours {
		for _, a := range series {
			if byHour[a.From] == nil {
				byHour[a.From] = &interval{From: a.From}
			}
			byHour[a.From].Succeeded += a.Succeeded
			byHour[a.From].Failed += a.Failed
			data.Delivered += a.Succeeded
			data.Failed += a.Failed
		}
	}
	for _, a := range byHour {
		data.Hours = append(data.Hours, *a)
	}
	slices.SortFunc(data.Hours, func(a, b interval) int { return b.From.Compare(a.From) })
	return nil
}
