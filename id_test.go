package waypost_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestNewID(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	var ids []string
	for range 1000 {
		id := waypost.NewID(waypost.PrefixMessage, at)
		if !waypost.IsID(waypost.PrefixMessage, id) || waypost.IsID(waypost.PrefixWebhook, id) || len(id) != 30 {
			t.Fatalf("id %q", id)
		}
		ids = append(ids, id)
		at = at.Add(time.Millisecond)
	}
	if !slices.IsSorted(ids) {
		t.Error("ids do not sort by their time")
	}
	same := map[string]bool{}
	for range 1000 {
		same[waypost.NewID("x_", at)] = true
	}
	if len(same) != 1000 {
		t.Errorf("%d different ids of 1000 minted in one millisecond", len(same))
	}
	if a, b := waypost.NewID("", time.UnixMilli(1<<47)), waypost.NewID("", time.UnixMilli(0)); a <= b {
		t.Errorf("%s of the far future sorts before %s of 1970", a, b)
	}
}

func TestIsID(t *testing.T) {
	t.Parallel()
	good := waypost.NewID(waypost.PrefixLaunch, time.UnixMilli(0))
	for _, bad := range []string{
		"", "lch_", good[4:], good[:29], good + "0", strings.ToUpper(good), "lch_" + strings.Repeat("u", 26), "lch_" + strings.Repeat("-", 26),
		good[:29] + "\n", "lch_\n\n" + good[6:], good[:29] + "z", " " + good[1:],
	} {
		if waypost.IsID(waypost.PrefixLaunch, bad) {
			t.Errorf("%q is taken for an id", bad)
		}
	}
}
