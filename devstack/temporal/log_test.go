package temporal

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.temporal.io/server/common/log/tag"
	"go.temporal.io/server/service/history/shard"
)

// What the server says is passed on, but for what it gets over by itself.
func TestServerLog(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	l := serverLog{log: slog.New(slog.NewTextHandler(&out, nil)), stopping: new(atomic.Bool)}
	l.Error("Queue reader unable to retrieve tasks", tag.Error(shard.ErrShardStatusUnknown))
	if out.Len() > 0 {
		t.Errorf("a shard that is being taken is told: %s", out.String())
	}
	l.Error("Queue reader unable to retrieve tasks", tag.Error(errors.New("disk full")))
	if !strings.Contains(out.String(), "disk full") {
		t.Errorf("got %q", out.String())
	}
	err := fatalError{"no schema", []tag.Tag{tag.Error(fmt.Errorf("open: %w", errors.New("disk full")))}}
	if !strings.Contains(err.Error(), "no schema: open: disk full") {
		t.Errorf("got %q", err)
	}
}
