package journey

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"waypost"
)

// TestDates holds the docs' table of dates against all three that read them.
func TestDates(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n### Forms of dates\n")
	table, rest, _ := strings.Cut(section, "\nNone of them are ")
	refused, _, _ := strings.Cut(rest, "\n\n")
	quoted := func(s string) (all []string) {
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(s, -1) {
			if m[1] != "T" {
				all = append(all, m[1])
			}
		}
		return all
	}
	shanghai := time.FixedZone("", 8*60*60)
	read := 0
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(row, "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, form := range quoted(cells[1]) {
			read++
			lead := waypost.Lead{LeadFields: waypost.LeadFields{CustomFields: map[string]any{"d": form}}}
			filtered, zoned, ok := waypost.ParseDate(form)
			waited, reason := leadDate(&lead, "customFields.d")
			decided, decidable := readInstant(form, shanghai)
			want := filtered
			if !zoned {
				want = want.Add(-8 * time.Hour)
			}
			if !ok || reason != "" || !decidable || !waited.Equal(filtered) || waited.instant != zoned || !decided.Equal(want) {
				t.Errorf("%s is %s %v to templates, %s %q to a waitUntil, %s %v to conditions", form, filtered, ok, waited.Time, reason, decided, decidable)
			}
			kind := "a time in a time zone"
			switch {
			case zoned:
				kind = "an instant"
			case filtered.Equal(filtered.Truncate(24 * time.Hour)):
				kind = "a day"
			}
			if strings.TrimSpace(cells[2]) != kind {
				t.Errorf("%s is %s, not %s", form, kind, cells[2])
			}
		}
	}
	for _, form := range quoted(refused) {
		read++
		lead := waypost.Lead{LeadFields: waypost.LeadFields{CustomFields: map[string]any{"d": form}}}
		_, reason := leadDate(&lead, "customFields.d")
		if _, ok := readInstant(form, time.UTC); ok || reason != invalidValue {
			t.Errorf("%s: %v, %q", form, ok, reason)
		}
		if _, _, ok := waypost.ParseDate(form); ok && form != "2026" {
			t.Errorf("templates read %s", form)
		}
	}
	if read != 27 {
		t.Errorf("%d forms, want 27", read)
	}
	for form, want := range map[string]string{
		"2026-12-31t09:00:00z": "2026-12-31T09:00:00Z", "2026-12-31 09:00:00.5-03": "2026-12-31T12:00:00.5Z", "99999999999": "5138-11-16T09:46:39Z",
		"100000000": "1973-03-03T09:46:40Z", "99999999": "", "999999999999": "", "5": "", "0": "", "--12-31": "", "now": "", "": "", " 2026-12-31\n": "2026-12-31T00:00:00Z",
	} {
		at, ok := readInstant(form, time.UTC)
		if ok != (want != "") || ok && at.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%q: %s, %v; want %s", form, at, ok, want)
		}
	}
}
