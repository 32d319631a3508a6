package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"waypost"
)

// Conditions ask what is recorded of the lead when they are evaluated; what came of it is in
// the timeline.
func TestConditionsOfTheRecord(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			g, err := w.store.CreateSegment(context.Background(), scope, waypost.Segment{Name: "buyers", When: `events("buy", duration("1h")).last().n == 2`})
			must(t, err)
			other := w.publish(`{"name":"Other","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
			v := w.publish(strings.NewReplacer("SEGMENT", g.ID, "OTHER", other.JourneyID).Replace(`{"name":"N","start":"which","nodes":[
				{"id":"which","type":"branch","cases":[{"when":"entered(\"OTHER\")","next":"no"},
					{"when":"events(\"buy\", duration(\"1h\")).count() == 2 && inSegment(\"SEGMENT\")","next":"third"}],"otherwise":"no"},
				{"id":"third","type":"waitForEvent","event":"buy","when":"event.n > 1 && events(\"buy\").count() == 3 && !inSegment(\"SEGMENT\")","timeout":"24h","next":"yes","onTimeout":"no"},
				{"id":"yes","type":"exit"},{"id":"no","type":"exit"}]}`))
			enrolled := w.enroll(v, n)
			buy := func(number int) func(context.Context) {
				return func(ctx context.Context) {
					for i, e := range enrolled {
						_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{
							EventID: fmt.Sprint(number, " ", i), Name: "buy", LeadsID: e.LeadsID, Properties: map[string]any{"n": number},
						})
						must(t, err)
					}
					w.tell()
				}
			}
			buy(1)(context.Background())
			buy(2)(context.Background())
			w.at(3600e9, buy(3))
			w.run()
			for _, e := range enrolled {
				got := slices.Concat(w.reasons(e, "which"), w.reasons(e, "third"))
				got = slices.DeleteFunc(got, func(line string) bool { return strings.HasPrefix(line, "entered: ") })
				want := []string{
					fmt.Sprintf(`took: case 2: events("buy", duration("1h")).count() == 2 → true, inSegment("%s") → true`, g.ID),
					fmt.Sprintf(`matched: event buy: event.n > 1 → true, events("buy").count() == 3 → true, !inSegment("%s") → true`, g.ID),
				}
				if !slices.Equal(got, want) {
					t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
				}
			}
		})
	}
}
