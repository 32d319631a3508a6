package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

var listTests = []test{
	{"filters", testFilters},
	{"journeys", testJourneyFilters},
	{"webhooks", testWebhookFilters},
	{"launches by status", testLaunchStatuses},
	{"names in another stage", testNamesakes},
	{"groups", testGroups},
	{"exports", testExportDeliveries},
	{"pages", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		var want []string
		for _, id := range f.enroll(t, journey, 7) {
			_, o := f.touchpoint(t, id, journey)
			f.open(t, o)
			want = append(want, o.Delivery.MessageID)
			f.clock.Advance(time.Millisecond)
		}
		slices.Reverse(want)
		var got []string
		for page := (waypost.Page{Limit: 3}); ; page.After = got[len(got)-1] {
			list := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, page))
			for _, d := range list {
				got = append(got, d.MessageID)
			}
			if len(list) < page.Limit {
				break
			}
		}
		equal(t, "pages", got, want)
		all := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, waypost.Page{Limit: 1_000_000}))
		equal(t, "all", len(all), 7)
	}},
}

func testFilters(t *testing.T, f *fixture) {
	start := f.clock.Now()
	type made struct {
		waypost.Delivery
		at time.Time
	}
	var all []made
	for range 2 {
		journey := f.journey(t)
		for i, id := range f.enroll(t, journey, 3) {
			f.clock.Advance(time.Second)
			key, o := f.touchpoint(t, id, journey)
			o.Delivery.WebhookID = []string{"whk_1", "whk_2", "whk_1"}[i]
			o.Delivery.LaunchID = []string{"", "lch_1", "lch_2"}[i]
			o.Delivery.NodeID = []string{"hello", "again", "hello"}[i]
			f.open(t, o)
			switch i {
			case 0:
				f.record(t, f.succeeded(key, 1))
			case 1:
				f.record(t, f.retrying(key, 1))
			}
			d, _, _ := f.delivery(t, key)
			all = append(all, made{d, f.clock.Now()})
		}
	}
	one := all[4]
	for name, c := range map[string]struct {
		filter waypost.DeliveryFilter
		match  func(d made) bool
	}{
		"none":       {waypost.DeliveryFilter{}, func(made) bool { return true }},
		"journey":    {waypost.DeliveryFilter{JourneyID: one.JourneyID}, func(d made) bool { return d.JourneyID == one.JourneyID }},
		"webhook":    {waypost.DeliveryFilter{WebhookID: "whk_1"}, func(d made) bool { return d.WebhookID == "whk_1" }},
		"enrollment": {waypost.DeliveryFilter{EnrollmentID: one.EnrollmentID}, func(d made) bool { return d.EnrollmentID == one.EnrollmentID }},
		"lead":       {waypost.DeliveryFilter{LeadsID: one.LeadsID}, func(d made) bool { return d.LeadsID == one.LeadsID }},
		"launch":     {waypost.DeliveryFilter{LaunchID: "lch_1"}, func(d made) bool { return d.LaunchID == "lch_1" }},
		"succeeded":  {waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliverySucceeded}}, func(d made) bool { return d.Status == waypost.DeliverySucceeded }},
		"retrying":   {waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryRetrying}}, func(d made) bool { return d.Status == waypost.DeliveryRetrying }},
		"several":    {waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryRetrying, waypost.DeliverySucceeded}}, func(d made) bool { return d.Status != waypost.DeliveryPending }},
		"troubled":   {waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryRetrying}, WebhookID: "whk_2"}, func(d made) bool { return d.Status == waypost.DeliveryRetrying }},
		"node":       {waypost.DeliveryFilter{NodeID: "again"}, func(d made) bool { return d.NodeID == "again" }},
		"class":      {waypost.DeliveryFilter{ErrorClass: waypost.ClassHTTPStatus}, func(d made) bool { return d.ErrorClass == waypost.ClassHTTPStatus }},
		"no class":   {waypost.DeliveryFilter{ErrorClass: waypost.ClassTimeout}, func(d made) bool { return false }},
		"answer":     {waypost.DeliveryFilter{HTTPStatus: 503}, func(d made) bool { return d.HTTPStatus == 503 }},
		"success":    {waypost.DeliveryFilter{HTTPStatus: 200}, func(d made) bool { return d.Status == waypost.DeliverySucceeded }},
		"from":       {waypost.DeliveryFilter{From: one.at}, func(d made) bool { return !d.at.Truncate(time.Millisecond).Before(one.at) }},
		"to":         {waypost.DeliveryFilter{To: one.at.Truncate(time.Millisecond)}, func(d made) bool { return d.at.Before(one.at.Truncate(time.Millisecond)) }},
		"long ago":   {waypost.DeliveryFilter{From: time.Unix(-1, 0)}, func(made) bool { return true }},
		"before it":  {waypost.DeliveryFilter{To: time.Unix(-1, 0)}, func(made) bool { return false }},
		"range":      {waypost.DeliveryFilter{From: all[1].at.Truncate(time.Millisecond), To: one.at}, func(d made) bool { return !d.at.Before(all[1].at) && !d.at.After(one.at) }},
		"before all": {waypost.DeliveryFilter{To: start}, func(made) bool { return false }},
		"combined": {
			waypost.DeliveryFilter{JourneyID: one.JourneyID, WebhookID: one.WebhookID, LeadsID: one.LeadsID, EnrollmentID: one.EnrollmentID, Statuses: []waypost.DeliveryStatus{one.Status}},
			func(d made) bool { return d.MessageID == one.MessageID },
		},
		"nothing": {waypost.DeliveryFilter{WebhookID: "whk_\x00' OR 1=1"}, func(made) bool { return false }},
	} {
		var want []waypost.Delivery
		for _, d := range slices.Backward(all) {
			if c.match(d) {
				want = append(want, d.Delivery)
			}
		}
		got := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, c.filter, waypost.Page{Limit: 100}))
		if len(got) != len(want) {
			t.Fatalf("%s: got %d deliveries, want %d", name, len(got), len(want))
		}
		for i := range got {
			equal(t, name, got[i], want[i])
		}
	}
}

// testGroups compares groups with the lists of their deliveries.
func testGroups(t *testing.T, f *fixture) {
	journey, one, two := f.journey(t), f.webhook(t), f.webhook(t)
	failing := func(class string, status int) end {
		return func(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
			r := f.failed(key, attempt)
			r.Outcome.ErrorClass, r.Outcome.HTTPStatus, r.Outcome.Message = class, status, key.EnrollmentID
			return r
		}
	}
	for i, c := range []struct {
		hook string
		n    int
		how  end
	}{
		{one, 4, failing(waypost.ClassHTTPStatus, 503)}, {two, 2, failing(waypost.ClassHTTPStatus, 503)}, {one, 4, failing(waypost.ClassHTTPStatus, 404)},
		{two, 5, failing(waypost.ClassTimeout, 0)}, {two, 2, failing(waypost.ClassTimeout, 200)}, {one, 3, failing(waypost.ClassSucceedFalse, 200)},
		{one, 7, f.succeeded}, {two, 1, f.retrying},
	} {
		f.clock.Advance(time.Minute)
		keys := f.decidedAll(t, journey, c.hook, c.n, c.how)
		if i == 0 {
			f.redeliver(t, keys[0]) // it is in no trouble meanwhile
		}
	}
	groups := func(filter waypost.DeliveryFilter, by ...string) (list []string) {
		t.Helper()
		for _, g := range must[[]waypost.DeliveryGroup](t)(f.SummarizeDeliveries(t.Context(), scope, filter, by)) {
			d := g.Sample
			same := filter
			if same.Statuses == nil {
				same.Statuses = []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryRetrying}
			}
			key := func(d waypost.Delivery) (key string) {
				for _, name := range by {
					key += " " + map[string]string{
						waypost.GroupErrorClass: d.ErrorClass, waypost.GroupHTTPStatus: fmt.Sprint(d.HTTPStatus), waypost.GroupNodeID: d.NodeID,
						waypost.GroupWebhookID: map[string]string{one: "one", two: "two"}[d.WebhookID],
					}[name]
				}
				return key
			}
			var those []waypost.Delivery
			for _, each := range must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, same, waypost.Page{Limit: 500})) {
				if key(each) == key(d) {
					those = append(those, each)
				}
			}
			equal(t, "count of"+key(d), g.Count, len(those))
			equal(t, "sample of"+key(d), d, those[0])
			list = append(list, fmt.Sprint(g.Count, key(d)))
		}
		return list
	}
	key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{
		Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferPaused, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour),
	}}))
	equal(t, "by class", groups(waypost.DeliveryFilter{}, waypost.GroupErrorClass), []string{"10 httpStatus", "7 timeout", "3 succeedFalse"})
	equal(t, "by answer", groups(waypost.DeliveryFilter{}, waypost.GroupErrorClass, waypost.GroupHTTPStatus),
		[]string{"6 httpStatus 503", "5 timeout 0", "4 httpStatus 404", "3 succeedFalse 200", "2 timeout 200"})
	equal(t, "by all", groups(waypost.DeliveryFilter{WebhookID: one}, waypost.DeliveryGroupings...), []string{"4 httpStatus 404 one hello", "3 succeedFalse 200 one hello", "3 httpStatus 503 one hello"})
	equal(t, "in spite of a success", groups(waypost.DeliveryFilter{HTTPStatus: 200}, waypost.GroupErrorClass), []string{"3 succeedFalse", "2 timeout"})
	equal(t, "of an answer", groups(waypost.DeliveryFilter{HTTPStatus: 503, Statuses: []waypost.DeliveryStatus{waypost.DeliveryFailed}}, waypost.GroupWebhookID), []string{"3 one", "2 two"})
	equal(t, "that succeeded", groups(waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliverySucceeded}}, waypost.GroupHTTPStatus, waypost.GroupWebhookID), []string{"7 200 one"})
	equal(t, "with an answer", groups(waypost.DeliveryFilter{HTTPStatus: 200, Statuses: []waypost.DeliveryStatus{waypost.DeliverySucceeded, waypost.DeliveryFailed}}, waypost.GroupHTTPStatus), []string{"12 200"})
	equal(t, "without an attempt", groups(waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryDeferred}}, waypost.GroupErrorClass), []string{"1 "})
	equal(t, "of nothing", len(groups(waypost.DeliveryFilter{NodeID: "none"}, waypost.GroupNodeID)), 0)
	for _, sc := range foreign {
		equal(t, "elsewhere", len(must[[]waypost.DeliveryGroup](t)(f.SummarizeDeliveries(t.Context(), sc, waypost.DeliveryFilter{}, []string{waypost.GroupNodeID}))), 0)
	}
}

// testExportDeliveries exports more than one page, as they were when it began.
func testExportDeliveries(t *testing.T, f *fixture) {
	const n = 2500
	journey, hook := f.journey(t), f.webhook(t)
	keys := f.failedVisits(t, journey, hook, n)
	f.decidedAll(t, f.journey(t), hook, 2, f.succeeded)
	for _, statuses := range [][]waypost.DeliveryStatus{nil, {waypost.DeliveryFailed}, {waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryPending}} {
		var got []string
		ok(t, f.ExportDeliveries(t.Context(), scope, waypost.DeliveryFilter{JourneyID: journey, Statuses: statuses}, func(d waypost.Delivery) error {
			if len(got) == 0 && len(statuses) == 3 {
				f.redeliver(t, keys[0]) // the last one
			}
			if d.Status != waypost.DeliveryFailed {
				return fmt.Errorf("%s is %s", d.MessageID, d.Status)
			}
			got = append(got, d.MessageID)
			return nil
		}))
		if len(got) != n || !slices.IsSortedFunc(got, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Fatalf("%v: exported %d", statuses, len(got))
		}
	}
	enough := errors.New("enough")
	if err := f.ExportDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, func(waypost.Delivery) error { return enough }); !errors.Is(err, enough) {
		t.Fatalf("ended with %v", err)
	}
	ok(t, f.ExportDeliveries(t.Context(), foreign[0], waypost.DeliveryFilter{}, func(waypost.Delivery) error { return enough }))
}
