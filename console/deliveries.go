package console

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

// deliveriesPage is the data of the list of deliveries.
type deliveriesPage struct {
	Filters            filterBar
	Items              []delivery
	Journeys, Webhooks names
	Steps              stepNames
	Leads              leadNames
	More               string
	Groups             []failureGroup
	Again              again // of all that match
	Redeliveries       []redelivery
	Exports            []link
}

// failureGroup is a group of failed deliveries, and what can be done about them.
type failureGroup struct {
	failureCount
	Path  string // of the list of them
	Again again
}

// again is a redelivery that can be asked for. It is offered if Count is not 0.
type again struct {
	Count  int
	Filter string // encoded as a query
}

var deliveryStatuses = []waypost.DeliveryStatus{
	waypost.DeliveryPending, waypost.DeliveryRetrying, waypost.DeliveryDeferred, waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryCanceled,
}

// mostGroups bounds the groups that are shown: those of the most deliveries.
const mostGroups = 8

// deliveries shows a page of the list. Groups of failures and redeliveries are read for its first
// page only.
func (v *visit) deliveries() error {
	ctx := v.r.Context()
	filters := v.deliveryFilters(nil, nil) // the names come beside what is asked for by them
	var p deliveriesPage
	calls := []func() error{func() (err error) {
		p.Journeys, p.Webhooks, err = v.gateway.bothNames(ctx)
		return err
	}, func() error {
		found, err := v.gateway.listDeliveries(ctx, filters.query(v.r))
		p.Items, p.More = found.Items, filters.more(found.NextCursor)
		if err != nil {
			return err
		}
		var versions []inVersion
		var leads []int64
		for _, d := range found.Items {
			versions, leads = append(versions, d.in()), append(leads, d.LeadsID)
		}
		return together(func() (err error) {
			p.Steps, err = v.stepNames(versions)
			return err
		}, func() (err error) {
			p.Leads, err = v.leadNames(leads)
			return err
		})
	}}
	var of launch
	var by api.Subscription
	if id := v.r.URL.Query().Get("launchId"); id != "" {
		calls = append(calls, func() (err error) {
			of, err = v.gateway.launch(ctx, id)
			return unlessGone(err)
		})
	}
	if id := v.r.URL.Query().Get("subscriptionId"); id != "" {
		calls = append(calls, func() (err error) {
			by, _, err = v.gateway.subscription(ctx, id)
			return unlessGone(err)
		})
	}
	if v.r.URL.Query().Get("cursor") == "" {
		calls = append(calls, func() (err error) {
			p.Groups, p.Again, err = v.failures(filters)
			return err
		}, func() (err error) {
			p.Redeliveries, err = v.redeliveries()
			return err
		})
	}
	if err := together(calls...); err != nil {
		return err
	}
	p.Filters = v.deliveryFilters(p.Journeys, p.Webhooks)
	p.Filters.say("subscriptionId", by.Name)
	if of.LaunchID != "" {
		p.Filters.say("launchId", v.launchName(of, p.Journeys.Of(of.JourneyID)))
	}
	p.Exports = filters.exports("/deliveries/export")
	return v.render(page{Name: "deliveries", Title: v.t("deliveries.title"), Place: "deliveries", Live: 5, Data: p})
}

func (v *visit) deliveryFilters(journeys, webhooks names) filterBar {
	return newFilterBar(v.r,
		filter{Name: "status", Label: v.t("deliveries.status"), Type: "several", Options: options(v, "status.", deliveryStatuses)},
		filter{Name: "journeyId", Label: v.t("deliveries.journey"), Type: "select", Options: journeys.options()},
		filter{Name: "webhookId", Label: v.t("deliveries.webhook"), Type: "select", Options: webhooks.options()},
		filter{Name: "errorClass", Label: v.t("deliveries.error"), Type: "select", Options: options(v, "errorClass.", waypost.ErrorClasses)},
		filter{Name: "nodeId", Label: v.t("deliveries.node"), Further: true},
		filter{Name: "httpStatus", Label: v.t("deliveries.httpStatus"), Type: "number", Further: true},
		filter{Name: "leadsId", Label: v.t("deliveries.leadsId"), Type: "number", Further: true},
		filter{Name: "from", Label: v.t("deliveries.from"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		filter{Name: "to", Label: v.t("deliveries.to"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		filter{Name: "enrollmentId", Label: v.t("deliveries.enrollment"), Type: "id"},
		filter{Name: "launchId", Label: v.t("deliveries.launch"), Type: "id"},
		filter{Name: "subscriptionId", Label: v.t("deliveries.subscription"), Type: "id"},
	)
}

// failures are the groups of failed and retried deliveries among those that match, and the redelivery
// of all that match. It takes decided deliveries of the chosen status, failed ones if none is chosen.
func (v *visit) failures(filters filterBar) (groups []failureGroup, all again, err error) {
	ctx := v.r.Context()
	shown := filters.wire()
	counted, err := v.gateway.groupDeliveries(ctx, shown)
	if err != nil {
		return nil, all, err
	}
	decided := []string{string(waypost.DeliveryFailed)}
	if status := shown.Get("status"); status != "" {
		decided = slices.DeleteFunc(strings.Split(status, ","), func(s string) bool { return !waypost.DeliveryStatus(s).Final() })
	}
	redeliverable := map[groupKey]int{}
	again := maps.Clone(shown)
	again.Set("status", strings.Join(decided, ","))
	if len(decided) > 0 && v.user.Role.Allows(waypost.GrantDeliveriesRedeliver) {
		ended := counted
		if again.Get("status") != shown.Get("status") {
			if ended, err = v.gateway.groupDeliveries(ctx, again); err != nil {
				return nil, all, err
			}
		}
		for _, g := range ended {
			redeliverable[g.groupKey] = g.Count
			all.Count += g.Count
		}
	}
	all.Filter = again.Encode()
	for _, g := range counted {
		if g.ErrorClass == "" || len(groups) == mostGroups {
			continue
		}
		path, each := filters.values(), maps.Clone(again)
		if path.Get("status") == "" {
			path.Set("status", string(waypost.DeliveryFailed)+","+string(waypost.DeliveryRetrying))
		}
		maps.Copy(path, g.query())
		maps.Copy(each, g.query())
		found := failureGroup{failureCount: g, Path: filters.at(path)}
		found.Again.Count, found.Again.Filter = redeliverable[g.groupKey], each.Encode()
		groups = append(groups, found)
	}
	return groups, all, nil
}

// redeliveries are those that go on, and the one that the URL names, which was just begun.
func (v *visit) redeliveries() (shown []redelivery, err error) {
	ctx := v.r.Context()
	named := v.r.URL.Query().Get("redelivery")
	if named != "" {
		r, err := v.gateway.redelivery(ctx, named)
		if err != nil {
			return nil, err
		}
		shown = append(shown, r)
	}
	newest, err := v.gateway.listRedeliveries(ctx, url.Values{"limit": {"10"}})
	for _, r := range newest.Items {
		if r.ID != named && !r.Status.Ended() {
			shown = append(shown, r)
		}
	}
	return shown, err
}

// mostPicked bounds how many deliveries are picked one by one for a redelivery.
const mostPicked = 500

// redeliver begins a redelivery: of the deliveries that were picked, or of all that match a
// filter.
func (v *visit) redeliver() error {
	back := localPath(v.r.PostForm.Get("back"))
	if picked := v.r.PostForm["message"]; len(picked) > 0 {
		if len(picked) > mostPicked {
			return waypost.Errorf(waypost.CodeBadRequest, "message", "%s", v.t("deliveries.tooManyPicked", "n", mostPicked))
		}
		return v.redeliverPicked(picked, back)
	}
	query, err := url.ParseQuery(v.r.PostForm.Get("filter"))
	if err != nil {
		return waypost.Errorf(waypost.CodeBadRequest, "filter", "is no filter")
	}
	filter := map[string]any{}
	for name := range query {
		filter[name] = query.Get(name)
		if name == "leadsId" || name == "httpStatus" {
			if filter[name], err = strconv.ParseInt(query.Get(name), 10, 64); err != nil {
				return waypost.Errorf(waypost.CodeBadRequest, name, "must be a number")
			}
		}
	}
	made, err := v.gateway.createRedelivery(v.r.Context(), filter)
	if err != nil {
		return err
	}
	to, err := url.Parse(back)
	if err != nil {
		return err
	}
	seen := to.Query()
	seen.Set("redelivery", made.ID)
	return v.redirect("/deliveries", seen)
}

func (v *visit) redeliverPicked(picked []string, back string) error {
	begun := 0
	var refused error
	for _, id := range picked {
		switch err := v.gateway.redeliver(v.r.Context(), id); waypost.CodeOf(err) {
		case waypost.CodeConflict, waypost.CodeUnprocessableEntity, waypost.CodeNotFound:
			refused = err
		default:
			if err != nil {
				return err
			}
			begun++
		}
	}
	if refused != nil {
		_, why, _ := faultsOf(refused)
		v.flash("bad", v.t("deliveries.someRedelivered", "n", begun, "refused", len(picked)-begun, "why", why))
	} else {
		v.flash("ok", v.t("deliveries.redelivered", "n", begun))
	}
	return v.redirect(back, nil)
}

func (v *visit) cancelRedelivery() error {
	id := v.r.PathValue("id")
	if err := v.gateway.cancelRedelivery(v.r.Context(), id); err != nil {
		return err
	}
	return v.redirect("/deliveries", url.Values{"redelivery": {id}})
}

// exportDeliveries passes on all deliveries that match, as a file.
func (v *visit) exportDeliveries() error {
	query := v.deliveryFilters(nil, nil).wire()
	return v.download(waypost.GrantDeliveriesRead, "/v1/deliveries/export", query, "deliveries")
}

// deliveryPage is the data of the page of one delivery.
type deliveryPage struct {
	deliveryDetail
	Journey, Subscription, Webhook, Step, Lead string // their names
	Rounds                                     []round
	Headers                                    []header
	Body                                       string // indented
}

// round is the journey's series of attempts, or that of a redelivery.
type round struct {
	Number   int
	Attempts []attempt
}

type header struct{ Name, Value string }

// cause is the gateway's message about a failure without "given up", which pages say in the person's
// language. It is "" for an HTTP status, which the page shows anyway.
func cause(class string, status int, message string) string {
	if class == waypost.ClassHTTPStatus && status/100 != 3 { // of a redirect, that it is not followed
		return ""
	}
	before, _, _ := strings.Cut(message, "; given up: ")
	return before
}

// delivery shows one message with its attempts by rounds. It refreshes every 3 s until the message
// is decided and its last attempt is a minute ago.
func (v *visit) delivery() error {
	ctx := v.r.Context()
	d, err := v.gateway.delivery(ctx, v.r.PathValue("id"))
	if err != nil {
		return err
	}
	p := deliveryPage{deliveryDetail: d, Body: indented(d.Request.Body)}
	err = together(func() error {
		journeys, webhooks, err := v.gateway.bothNames(ctx)
		p.Journey, p.Webhook = journeys.Of(d.JourneyID), webhooks.Of(d.WebhookID)
		return err
	}, func() error {
		steps, err := v.stepNames([]inVersion{d.in()})
		p.Step = steps.Of(d.JourneyID, d.JourneyVersion, d.NodeID)
		return err
	}, func() (err error) {
		if d.LeadsID != 0 {
			p.Lead, err = v.leadName(d.LeadsID)
		}
		return err
	}, func() error {
		if d.SubscriptionID == "" {
			return nil
		}
		s, _, err := v.gateway.subscription(ctx, d.SubscriptionID)
		p.Subscription = cmp.Or(s.Name, d.SubscriptionID)
		return unlessGone(err)
	})
	if err != nil {
		return err
	}
	title := v.t("delivery.title", "journey", p.Journey, "node", p.Step)
	if p.Subscription != "" {
		title = v.t("delivery.toSubscription", "subscription", p.Subscription)
	}
	for _, a := range d.AttemptLog {
		if n := len(p.Rounds); n == 0 || p.Rounds[n-1].Number != a.Round {
			p.Rounds = append(p.Rounds, round{Number: a.Round})
		}
		last := &p.Rounds[len(p.Rounds)-1]
		last.Attempts = append(last.Attempts, a)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Request.Headers)) {
		p.Headers = append(p.Headers, header{name, d.Request.Headers[name]})
	}
	live := 0
	if !d.Status.Final() || time.Since(d.LastAttemptAt) < time.Minute {
		live = 3
	}
	return v.render(page{
		Name: "delivery", Title: title, Place: "deliveries", Live: live,
		Back: &link{Path: "/deliveries", Text: v.t("deliveries.title")}, Data: p,
	})
}

// redeliverOne begins a new round of attempts of one message.
func (v *visit) redeliverOne() error {
	id := v.r.PathValue("id")
	if err := v.gateway.redeliver(v.r.Context(), id); err != nil {
		return err
	}
	v.flash("ok", v.t("deliveries.redelivered", "n", 1))
	return v.redirect(fmt.Sprintf("/deliveries/%s", url.PathEscape(id)), nil)
}
