package storetest

import (
	"slices"
	"testing"
	"time"

	"waypost"
)

var listTests = []test{
	{"filters", testFilters},
	{"journeys", testJourneyFilters},
	{"webhooks", testWebhookFilters},
	{"launches by status", testLaunchStatuses},
	{"names in another stage", testNamesakes},
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
		"succeeded":  {waypost.DeliveryFilter{Status: waypost.DeliverySucceeded}, func(d made) bool { return d.Status == waypost.DeliverySucceeded }},
		"retrying":   {waypost.DeliveryFilter{Status: waypost.DeliveryRetrying}, func(d made) bool { return d.Status == waypost.DeliveryRetrying }},
		"from":       {waypost.DeliveryFilter{From: one.at}, func(d made) bool { return !d.at.Truncate(time.Millisecond).Before(one.at) }},
		"to":         {waypost.DeliveryFilter{To: one.at.Truncate(time.Millisecond)}, func(d made) bool { return d.at.Before(one.at.Truncate(time.Millisecond)) }},
		"long ago":   {waypost.DeliveryFilter{From: time.Unix(-1, 0)}, func(made) bool { return true }},
		"before it":  {waypost.DeliveryFilter{To: time.Unix(-1, 0)}, func(made) bool { return false }},
		"range":      {waypost.DeliveryFilter{From: all[1].at.Truncate(time.Millisecond), To: one.at}, func(d made) bool { return !d.at.Before(all[1].at) && !d.at.After(one.at) }},
		"before all": {waypost.DeliveryFilter{To: start}, func(made) bool { return false }},
		"combined": {
			waypost.DeliveryFilter{JourneyID: one.JourneyID, WebhookID: one.WebhookID, LeadsID: one.LeadsID, EnrollmentID: one.EnrollmentID, Status: one.Status},
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
