package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// nonceHorizonRow is the only row of its table.
type nonceHorizonRow struct {
	bun.BaseModel `bun:"table:nonce_horizon,alias:nh"`

	ID       int   `bun:"id,pk"`
	LatestAt stamp `bun:"latest_at"`
}

// NonceHorizon is the latest time at which a request can have been signed that a gateway
// accepted; the zero time if none was accepted yet.
func (s *Store) NonceHorizon(ctx context.Context) (latest time.Time, err error) {
	defer wrap(&err, "read the horizon of nonces")
	var row nonceHorizonRow
	err = s.r.NewSelect().Model(&row).Scan(ctx)
	return row.LatestAt.Time, err
}

// RaiseNonceHorizon has the horizon be at a time, at least.
func (s *Store) RaiseNonceHorizon(ctx context.Context, to time.Time) (err error) {
	defer wrap(&err, "raise the horizon of nonces")
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		at := stampUp(to)
		_, err := tx.NewUpdate().Model((*nonceHorizonRow)(nil)).Set("latest_at = ?", at).Where("latest_at IS NULL OR latest_at < ?", at).Exec(ctx)
		return err
	})
}
