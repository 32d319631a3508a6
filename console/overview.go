package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waypost"
	"waypost/api"
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
	Hours     []api.AttemptInterval // of the last day, the newest first
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
	api.WebhookHealth
}

// Waits is how many deliveries wait for the webhook.
func (d downWebhook) Waits() int { return d.Waiting.Retrying + d.Waiting.Deferred }

// Bounds of the first page: what it shows, and what it asks for.
const (
	journeysShown = 8
	launchesShown = 8
	groupsShown   = 6
	webhooksAsked = 50 // that may be down, each of which is a call
)

func (v *visit) overview() error {
	data, err := v.loadOverview(v.r.Context(), time.Now())
	if err != nil {
		return err
	}
	return v.render(page{Name: "overview", Title: v.t("overview.title"), Place: "overview", Live: 10, Scripts: []string{"chart.js"}, Data: data})
}

// overviewLists are answers that the first page is made of.
type overviewLists struct {
	active             api.List[journey]
	open               [3]api.List[launch] // by openLaunches
	newest             api.List[launch]
	deferred, retrying []failureCount // by webhook
	failed             []failureCount // of the last hour
	disabled           api.List[api.Webhook]
}

// suspects are the webhooks that may take no messages now: those that are disabled, and those
// that messages wait for, or failed at in the last hour.
func (lists overviewLists) suspects() (ids []string) {
	for _, w := range lists.disabled.Items {
		ids = append(ids, w.ID)
	}
	for _, g := range slices.Concat(lists.deferred, lists.retrying, lists.failed) {
		if g.WebhookID != "" && !slices.Contains(ids, g.WebhookID) {
			ids = append(ids, g.WebhookID)
		}
	}
	return ids[:min(len(ids), webhooksAsked)]
}

// openLaunches are the states of the launches that are listed first.
var openLaunches = [3]waypost.LaunchStatus{waypost.LaunchRunning, waypost.LaunchPaused, waypost.LaunchScheduled}

func (v *visit) loadOverview(ctx context.Context, now time.Time) (data overviewPage, err error) {
	hourAgo := now.Add(-time.Hour).UTC().Format(time.RFC3339)
	dayAgo := now.Add(-23 * time.Hour).UTC().Format(time.RFC3339) // with the hour that it lies in
	lists, err := v.loadOverviewLists(ctx, &data, hourAgo, dayAgo)
	if err != nil {
		return data, err
	}
	data.Nothing, data.More = len(data.Journeys) == 0, lists.active.NextCursor != ""
	year, month, day := now.In(v.chosen.Zone).Date()
	data.Launches, data.Today = lists.launches(time.Date(year, month, day, 0, 0, 0, 0, v.chosen.Zone))
	data.Waiting, data.Failing = lists.waiting(), lists.failing(hourAgo)
	return data, v.loadOverviewNumbers(ctx, &data, lists.active.Items, lists.suspects())
}

// loadOverviewLists reads the lists, and what of them the page shows as it is.
func (v *visit) loadOverviewLists(ctx context.Context, data *overviewPage, hourAgo, dayAgo string) (lists overviewLists, err error) {
	byWebhook := func(status waypost.DeliveryStatus) ([]failureCount, error) {
		return v.gateway.groupDeliveries(ctx, url.Values{"status": {string(status)}, "groupBy": {waypost.GroupWebhookID}})
	}
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
			data.Stalled, err = v.gateway.stalled(ctx, nil)
			return err
		},
		func() (err error) {
			lists.active, err = v.gateway.listJourneys(ctx, url.Values{"status": {string(waypost.JourneyActive)}, "limit": {journeysOfPage}})
			return err
		},
		func() (err error) {
			lists.newest, err = v.gateway.listLaunches(ctx, url.Values{"limit": {"100"}})
			return err
		},
		func() (err error) {
			lists.failed, err = v.gateway.groupDeliveries(ctx, url.Values{"status": {string(waypost.DeliveryFailed)}, "from": {hourAgo}})
			return err
		},
		func() (err error) {
			lists.deferred, err = byWebhook(waypost.DeliveryDeferred)
			return err
		},
		func() (err error) {
			lists.retrying, err = byWebhook(waypost.DeliveryRetrying)
			return err
		},
		func() (err error) {
			lists.disabled, err = v.gateway.listWebhooks(ctx, url.Values{"enabled": {"false"}, "limit": {strconv.Itoa(webhooksAsked)}})
			return err
		},
		func() (err error) {
			data.Hours, err = v.gateway.attemptHistory(ctx, url.Values{"from": {dayAgo}, "every": {"hour"}})
			slices.Reverse(data.Hours)
			for _, i := range data.Hours {
				data.Delivered, data.Failed = data.Delivered+i.Succeeded, data.Failed+i.Failed
			}
			return err
		},
	}
	for i, status := range openLaunches {
		calls = append(calls, func() (err error) {
			lists.open[i], err = v.gateway.listLaunches(ctx, url.Values{"status": {string(status)}, "limit": {strconv.Itoa(launchesShown)}})
			return err
		})
	}
	return lists, together(calls...)
}

// launches are those that the page shows, the open ones first, and how many were made since
// midnight.
func (lists overviewLists) launches(midnight time.Time) (shown []launch, today int) {
	for _, l := range lists.open {
		shown = append(shown, l.Items...)
	}
	for _, l := range lists.newest.Items {
		if l.CreatedAt.Before(midnight) {
			continue
		}
		today++
		if !slices.ContainsFunc(shown, func(other launch) bool { return other.LaunchID == l.LaunchID }) {
			shown = append(shown, l)
		}
	}
	return shown[:min(len(shown), launchesShown)], today
}

// waiting are the deliveries that are held back or retried, by webhook, the most first.
func (lists overviewLists) waiting() (groups []failureGroup) {
	sums := map[string]int{}
	for _, g := range slices.Concat(lists.deferred, lists.retrying) {
		sums[g.WebhookID] += g.Count
	}
	for id, n := range sums {
		groups = append(groups, failureGroup{
			failureCount: failureCount{groupKey: groupKey{WebhookID: id}, Count: n}, Path: "/deliveries?status=retrying,deferred&webhookId=" + url.QueryEscape(id),
		})
	}
	slices.SortFunc(groups, func(a, b failureGroup) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.WebhookID, b.WebhookID))
	})
	return groups[:min(len(groups), groupsShown)]
}

// failing are the failures of the last hour, with links to the lists of them.
func (lists overviewLists) failing(hourAgo string) (groups []failureGroup) {
	for _, g := range lists.failed[:min(len(lists.failed), groupsShown)] {
		query := g.query()
		query.Set("status", string(waypost.DeliveryFailed))
		query.Set("from", hourAgo)
		groups = append(groups, failureGroup{failureCount: g, Path: "/deliveries?" + query.Encode()})
	}
	return groups
}

// loadOverviewNumbers reads the people of journeys, and the health of webhooks that may be down.
func (v *visit) loadOverviewNumbers(ctx context.Context, data *overviewPage, active []journey, suspects []string) error {
	data.Active = make([]journeyRow, len(active))
	var calls []func() error
	for i, j := range active {
		row := &data.Active[i]
		row.journey = j
		calls = append(calls, func() error {
			s, err := v.gateway.statistics(ctx, j.ID, nil)
			row.Counts = s.counts
			return unlessGone(err)
		})
	}
	fares := make([]downWebhook, len(suspects))
	for i, id := range suspects {
		calls = append(calls, func() error {
			h, err := v.gateway.healthOf(ctx, id)
			fares[i] = downWebhook{id, data.Webhooks.Of(id), h}
			if err != nil {
				fares[i].Enabled, fares[i].Breaker.State = true, "" // it is gone
			}
			return unlessGone(err)
		})
	}
	if err := together(calls...); err != nil {
		return err
	}
	for _, r := range data.Active {
		data.Standing += r.Counts.Standing()
	}
	slices.SortStableFunc(data.Active, func(a, b journeyRow) int { return cmp.Compare(b.Counts.Standing(), a.Counts.Standing()) })
	data.Running = data.Active[:min(len(data.Active), journeysShown)]
	data.Down = slices.DeleteFunc(fares, downWebhook.takes)
	return nil
}

// takes tells whether the webhook takes messages.
func (d downWebhook) takes() bool {
	return d.Enabled && d.Breaker.State != "open" && d.Breaker.State != "halfOpen"
}
