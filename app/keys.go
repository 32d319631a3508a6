package app

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"waypost"
	"waypost/config"
	"waypost/workflows"
)

// schedulePage is how many launches are read at a time.
const schedulePage = 100

// ResealSchedules encrypts the Schedules of recurring launches with the first key, and
// returns their number. list is the store's ScheduledLaunches. Temporal is only needed if
// there are any. The error at the end names launches without a Schedule.
func ResealSchedules(ctx context.Context, cfg config.Config, list func(ctx context.Context, after string, limit int) ([]waypost.Launch, error)) (done int, err error) {
	launches, err := list(ctx, "", schedulePage)
	if err != nil || len(launches) == 0 {
		return 0, err
	}
	keys, err := waypost.ParseKeyring(string(cfg.Encryption.Keys))
	if err != nil {
		return 0, fmt.Errorf("WAYPOST_ENCRYPTION_KEYS: %w", err)
	}
	temporal, err := dialTemporal(cfg, keys, nil, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer temporal.Close()
	if err := pingTemporal(temporal)(ctx); err != nil {
		return 0, fmt.Errorf("reach Temporal at %s, which has the schedules of recurring launches (WAYPOST_TEMPORAL_ADDRESS): %w", cfg.Temporal.Address, err)
	}
	starter := workflows.NewClient(temporal, cfg.Temporal.TaskQueue)
	var missing []string
	for len(launches) > 0 {
		for _, l := range launches {
			exists, err := starter.ResealSchedule(ctx, l)
			if err != nil {
				return done, err
			}
			if !exists {
				missing = append(missing, l.ID)
				continue
			}
			done++
		}
		if launches, err = list(ctx, launches[len(launches)-1].ID, schedulePage); err != nil {
			return done, err
		}
	}
	if len(missing) > 0 {
		return done, fmt.Errorf("namespace %s has no schedule of the recurring launches %s: it is another namespace (WAYPOST_TEMPORAL_NAMESPACE), or somebody has deleted them, and the launches should be canceled",
			cfg.Temporal.Namespace, strings.Join(missing, ", "))
	}
	return done, nil
}
