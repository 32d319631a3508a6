package storetest

import (
	"testing"
	"time"

	"waypost"
)

// Who gets a database that another test has used finds it as it was when it was new.
func TestPostgresPool(t *testing.T) {
	t.Parallel()
	RequirePostgres(t)
	open := PostgresPool(t)
	var first int64
	for _, name := range []string{"new", "used"} {
		t.Run(name, func(t *testing.T) {
			f := &fixture{Store: open(t, time.Now), clock: NewClock()}
			equal(t, "leads", len(must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{}))), 0)
			id := f.lead(t)
			if first == 0 {
				first = id
			}
			equal(t, "id of the first lead", id, first)
			// The index has a row from the beginning, and its holder is not the one before.
			_, held, err := f.HoldArticleIndex(t.Context(), name, "embedded", false, time.Hour)
			ok(t, err)
			equal(t, "held", held, true)
		})
	}
}
