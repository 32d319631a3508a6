package storetest

import (
	"fmt"
	"testing"
	"time"

	"waypost"
)

// testLaunchClock launches to segments whose conditions ask for windows, now and today, a lead
// a step, while the clock moves on, also over midnight: a launch reads all of its audience as of
// its start, and so does each occurrence of one that recurs.
func testLaunchClock(t *testing.T, f *fixture) {
	f.clock.Advance(time.Date(2026, 3, 14, 23, 59, 30, 0, time.UTC).Sub(f.clock.Now()))
	const today, zone = "03-14", "UTC"
	make := func(fields waypost.LeadFields) int64 {
		t.Helper()
		fields.Name, fields.CustomFields = "Ada", map[string]any{"timezone": zone}
		return must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil)).LeadsID
	}
	var leads, birthdays []int64
	for _, birthday := range []string{today, today, today, "01-01", today, today, today, today, "03-15"} {
		lead := make(waypost.LeadFields{Birthday: ptr("1990-" + birthday)})
		if leads = append(leads, lead); birthday == today {
			birthdays = append(birthdays, lead)
		}
	}
	for i, lead := range leads[:4] {
		_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(i), Name: "z", LeadsID: lead})
		ok(t, err)
	}
	f.clock.Advance(6 * time.Second)
	for i, lead := range leads[4:6] {
		_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint("later ", i), Name: "z", LeadsID: lead})
		ok(t, err)
	}
	onBirthday := `date(lead.birthday).getMonth() == today.getMonth() && date(lead.birthday).getDate() == today.getDate()`
	cases := []struct {
		when string
		want []int64
	}{
		{`events("z").count() > 0 && events("z", duration("5s")).count() == 0`, leads[:4]},
		{`events("z", duration("5s")).count() > 0`, leads[4:6]},
		{`events("z", duration("5s")).map(e, e).size() > 0`, leads[4:6]}, // evaluated
		{`lead.createdAt < now`, leads},
		{`lead.createdAt > now - duration("7s") && lead.name.size() > 0`, leads}, // evaluated
		{`now.getFullYear() == 2026`, leads},
		{onBirthday, birthdays},
	}
	for _, c := range cases[:len(cases):len(cases)] {
		cases = append(cases, struct {
			when string
			want []int64
		}{fmt.Sprintf(`inSegment("%s")`, f.segment(t, c.when).ID), c.want})
	}
	audience := func(when string) waypost.Audience { return waypost.Audience{Segment: f.segment(t, when).ID} }
	type running struct {
		what, launch string
		want         []int64
	}
	var all []running
	for _, c := range cases {
		a := audience(c.when)
		equal(t, "count of "+c.when, must[waypost.SegmentCount](t)(f.CountSegment(t.Context(), scope, a.Segment, 1)).Count, len(c.want))
		_, total, err := f.SampleAudience(t.Context(), scope, a, f.clock.Now(), 3)
		ok(t, err)
		equal(t, "sample of "+c.when, total, len(c.want))
		once := waypost.Launch{JourneyID: f.journey(t), Version: 1, AppID: "app_1", Audience: a}
		recurs := once
		recurs.JourneyID, recurs.Schedule = f.journey(t), &waypost.Schedule{Cron: "59 23 * * *", Timezone: "UTC"}
		o := must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), f.launchTo(t, recurs).ID, f.clock.Now()))
		for what, id := range map[string]string{"launch": f.launchTo(t, once).ID, "occurrence": o.LaunchID} {
			all = append(all, running{what + " to " + c.when, id, c.want})
			equal(t, "first step of "+what, must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), id, 1)).Enrolled, 1)
		}
	}
	// The others come on the next day, one after another.
	for i := range leads {
		f.clock.Advance(10 * time.Second)
		for _, r := range all {
			step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), r.launch, 1))
			if more := i+1 < len(r.want); step.Enrolled != 1 && more || step.Enrolled > 0 && !more {
				t.Fatalf("%s: step %d came to %+v", r.what, i+2, step)
			}
		}
	}
	for _, r := range all {
		equal(t, r.what, f.progressOf(t, r.launch), waypost.LaunchProgress{Total: len(r.want), Enrolled: len(r.want)})
	}
	// A launch that starts now reads as of the next day.
	next := f.launchTo(t, waypost.Launch{JourneyID: f.journey(t), Version: 1, AppID: "app_1", Audience: audience(onBirthday)})
	f.run(t, next.ID, 3)
	equal(t, "on the next day", f.progressOf(t, next.ID), waypost.LaunchProgress{Total: 1, Enrolled: 1})
}
