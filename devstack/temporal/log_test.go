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
	out.Reset()
	one := l.With(tag.WorkflowID("enr_1"))
	one.Error("no", tag.ShardID(1))
	one.(serverLog).SLog().Error("nor")
	l.Error("neither")
	lines := strings.Split(out.String(), "\n")
	for i, want := range []bool{true, true, false} {
		if strings.Contains(lines[i], "enr_1") != want {
			t.Errorf("line %d is of the workflow %t: %s", i, !want, lines[i])
		}
	}
	err := fatalError{"no schema", []tag.Tag{tag.Error(fmt.Errorf("open: %w", errors.New("disk full")))}}
	if !strings.Contains(err.Error(), "no schema: open: disk full") {
		t.Errorf("got %q", err)
	}
}
