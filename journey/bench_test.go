package journey_test

import (
	"testing"

	"waypost/journey"
)

func BenchmarkParse(b *testing.B) {
	source := read(b, "testdata/valid_welcome.json")
	b.ReportAllocs()
	for b.Loop() {
		if _, problems := journey.Parse(source); len(problems) > 0 {
			b.Fatal(problems)
		}
	}
}

// BenchmarkStep walks the welcome journey: five steps.
func BenchmarkStep(b *testing.B) {
	d := parse(b, string(read(b, "testdata/valid_welcome.json")))
	inputs := []journey.Input{start(), sent(true, ""), elapsed(), decided(0, ""), sent(true, "")}
	b.ReportAllocs()
	for b.Loop() {
		var s journey.State
		for _, in := range inputs {
			in.At = noon
			var err error
			if s, _, err = journey.Step(d, s, in); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkDecide(b *testing.B) {
	d := branchOn(b, "lead.region == 7", "lead.gender == 1 && touchpoints.hello.succeed")
	f := facts()
	b.ReportAllocs()
	for b.Loop() {
		if arm, reason := d.Decide("b", f); arm != 1 {
			b.Fatal(reason)
		}
	}
}

func BenchmarkMatches(b *testing.B) {
	d := waitOn(b, "event.amount > 100 && lead.gender == 1")
	f := facts()
	f.Event = map[string]any{"amount": 250.0, "tags": []any{"a", "b"}}
	b.ReportAllocs()
	for b.Loop() {
		if yes, fault := matches(d, "w", f); !yes {
			b.Fatal(fault)
		}
	}
}

func BenchmarkRender(b *testing.B) {
	for name, params := range map[string]map[string]any{
		"plain":     {"template": "thanks", "price": 1.5},
		"templates": {"greeting": "Hi {{ lead.name | default: 'you' }}", "phone": "{{ lead.mobilePhone[0] }}", "n": 3},
	} {
		b.Run(name, func(b *testing.B) {
			d := touchpoint(b, params)
			f := facts()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := d.Render("t", nil, f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
