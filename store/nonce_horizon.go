package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// nonceHorizonRow is that of one signer, or at "" that of all who have none of their own.
type nonceHorizonRow struct {
	bun.BaseModel `bun:"table:nonce_horizon,alias:nh"`

	Signer   string `bun:"signer,pk"`
	LatestAt stamp  `bun:"latest_at"`
}

// NonceHorizons are the latest times at which requests can have been signed that gateways accepted:
// by signers whose clocks were ahead, and at "" by all others; empty if none was accepted yet.
func (s *apps) NonceHorizons(ctx context.Context) (latest map[string]time.Time, err error) {
	defer wrap(&err, "read the horizons of nonces")
	var rows []nonceHorizonRow
	if err := s.r.NewSelect().Model(&rows).Scan(ctx); err != nil {
		return nil, err
	}
	latest = map[string]time.Time{}
	for _, row := range rows {
		latest[row.Signer] = row.LatestAt.Time
	}
	return latest, nil
}

// RaiseNonceHorizon has the horizon of a signer be at a time, at least.
func (s *apps) RaiseNonceHorizon(ctx context.Context, signer string, to time.Time) (err error) {
	defer wrap(&err, "raise the horizon of nonces")
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row := nonceHorizonRow{Signer: signer, LatestAt: stampUp(to)}
		_, err := tx.NewInsert().Model(&row).On("CONFLICT (signer) DO UPDATE").Set("latest_at = excluded.latest_at").
			Where("nh.latest_at < excluded.latest_at").Exec(ctx)
		return err
	})
}
