package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

const (
	// claimLife is waypost.KeyLife of a key that has no answer
	// (docs/contract.md, "Idempotency keys").
	claimLife = time.Minute
	// prunedKeys is how many expired keys a claim deletes: more than it makes, so that they
	// do not gather.
	prunedKeys = 10
)

type keyAnswerRow struct {
	bun.BaseModel `bun:"table:idempotency_keys,alias:ik"`

	ID        string `bun:"id,pk"`
	Token     string `bun:"token"`
	Body      string `bun:"body"`
	ClaimedAt stamp  `bun:"claimed_at"`
	Answer    []byte `bun:"answer"`
}

func answerPurpose(id string) string { return "answer/" + id }

// ClaimKey gives an Idempotency-Key to a request, for which c is ClaimOf what it
// does, or returns the answer that an earlier request with the same body got in the
// last 24 hours. Conflict if the key came with another body, or if the earlier
// request has no answer yet; without one a claim is free after a minute.
func (s *Store) ClaimKey(ctx context.Context, c *waypost.Claim, body []byte) (kept *waypost.Answer, err error) {
	defer wrap(&err, "claim an Idempotency-Key")
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := s.time()
		fresh := keyAnswerRow{ID: c.ID, Token: c.Token, Body: hex.EncodeToString(body), ClaimedAt: stamp{now}}
		if _, err := s.pruneKeys(ctx, tx, stamp{now.Add(-waypost.KeyLife)}, prunedKeys); err != nil {
			return err
		}
		var row keyAnswerRow
		for {
			n, err := affected(tx.NewInsert().Model(&fresh).On("CONFLICT (id) DO NOTHING").Returning("NULL").Exec(ctx))
			if err != nil || n > 0 {
				return err
			}
			err = s.lock(tx.NewSelect().Model(&row).Where("id = ?", c.ID), "ik").Scan(ctx)
			if err == nil {
				break
			}
			if !errors.Is(err, sql.ErrNoRows) { // it was released in between
				return err
			}
		}
		if kept, err = s.earlier(row, fresh); kept != nil || err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model(&fresh).WherePK().Exec(ctx)
		return err
	})
	return kept, err
}

// pruneKeys deletes up to n keys that have expired, and counts them.
func (s *Store) pruneKeys(ctx context.Context, tx bun.Tx, before stamp, n int) (int, error) {
	old := tx.NewSelect().Model((*keyAnswerRow)(nil)).Column("id").Where("claimed_at < ?", before).Order("claimed_at").Limit(int64(n))
	s.lockFor(old, forDelete+skipLocked) // others prune, too, or take one of them anew
	return affected(tx.NewDelete().Model((*keyAnswerRow)(nil)).Where("id IN (?)", old).Where("claimed_at < ?", before).Exec(ctx))
}

// answerPage lists keys for a sweep: where few come, no claim would prune them.
func (s *Store) answerPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().Model((*keyAnswerRow)(nil)).ColumnExpr("id, claimed_at AS number, TRUE AS is_over").
		Where("claimed_at < ? AND (claimed_at, id) > (?, ?)", p.before(), p.Number, p.ID).Order("claimed_at", "id").Limit(s.sweepPage())
}

func (s *Store) dropAnswers(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	return s.pruneKeys(ctx, tx, p.before(), len(rows))
}

// earlier returns what the key's earlier request was answered, nil if the key is
// free again.
func (s *Store) earlier(row, fresh keyAnswerRow) (*waypost.Answer, error) {
	age := fresh.ClaimedAt.Sub(row.ClaimedAt.Time)
	switch {
	case age >= waypost.KeyLife || row.Answer == nil && age >= claimLife:
		return nil, nil
	case row.Body != fresh.Body:
		return nil, waypost.Errorf(waypost.CodeConflict, "Idempotency-Key", "the Idempotency-Key was used with another body; take a new one")
	case row.Answer == nil:
		return nil, waypost.Errorf(waypost.CodeConflict, "Idempotency-Key", "the first request with this Idempotency-Key is still running")
	}
	plain, err := s.keys.Open(row.Answer, answerPurpose(row.ID))
	if err != nil {
		return nil, fmt.Errorf("open a kept answer: %w", err)
	}
	var kept waypost.Answer
	if err := json.Unmarshal(plain, &kept); err != nil {
		return nil, fmt.Errorf("read a kept answer: %w", err)
	}
	return &kept, nil
}

// keep writes the answer of the request that ctx belongs to, if it has an
// Idempotency-Key, into the transaction of its effect. result is what the method
// with the effect returns. It is a Conflict, which undoes the effect, if another
// request has the key meanwhile.
func (s *Store) keep(ctx context.Context, tx bun.Tx, result any) error {
	claim := waypost.ClaimOf(ctx)
	if claim == nil {
		return nil
	}
	ans, err := claim.Answer(result)
	if err != nil {
		return err
	}
	n, err := s.keepAnswer(ctx, tx, claim, ans)
	if err != nil {
		return err
	}
	if n == 0 {
		return waypost.Errorf(waypost.CodeConflict, "Idempotency-Key", "the request took too long, and another one has its Idempotency-Key now")
	}
	claim.Kept = true
	return nil
}

func (s *Store) keepAnswer(ctx context.Context, tx bun.Tx, c *waypost.Claim, ans waypost.Answer) (n int, err error) {
	defer wrap(&err, "keep an answer")
	plain, err := json.Marshal(ans)
	if err != nil {
		return 0, err
	}
	// It may hold what is shown only once.
	return affected(tx.NewUpdate().Model((*keyAnswerRow)(nil)).Set("answer = ?", s.keys.Seal(plain, answerPurpose(c.ID))).
		Where("id = ? AND token = ? AND answer IS NULL", c.ID, c.Token).Exec(ctx))
}

// KeepAnswer writes the answer of a claim whose effect did not: of a refusal, or of
// what has the same effect when it is done twice. If another request has the key
// meanwhile, nothing happens.
func (s *Store) KeepAnswer(ctx context.Context, c *waypost.Claim, ans waypost.Answer) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := s.keepAnswer(ctx, tx, c, ans)
		return err
	})
}

// ReleaseKey gives a key free that has no answer yet.
func (s *Store) ReleaseKey(ctx context.Context, c *waypost.Claim) (err error) {
	defer wrap(&err, "release an Idempotency-Key")
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model((*keyAnswerRow)(nil)).Where("id = ? AND token = ? AND answer IS NULL", c.ID, c.Token).Exec(ctx)
		return err
	})
}
