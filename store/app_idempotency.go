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
	// prunedKeys is how many expired keys a claim deletes: more than it makes, so that the
	// table does not grow without end.
	prunedKeys = 10
)

type keyAnswerRow struct {
	bun.BaseModel `bun:"table:idempotency_keys,alias:ik"`

	ID        string `bun:"id,pk"`
	Token     string `bun:"token"`
	Body      string `bun:"body"`
	ClaimedAt stamp  `bun:"claimed_at"`
	Answer    []byte `bun:"answer"`
	Erased    bool   `bun:"erased"` // Answer was, with a lead that it told of
}

// answerLeadRow names a lead that an answer tells of.
type answerLeadRow struct {
	bun.BaseModel `bun:"table:answer_leads,alias:al"`

	LeadsID int64  `bun:"leads_id,pk"`
	KeyID   string `bun:"key_id,pk"`
}

func answerPurpose(id string) string { return "answer/" + id }

// ClaimKey gives an Idempotency-Key to a request, for which c is ClaimOf what it
// does, or returns the answer that an earlier request with the same body got in the
// last 24 hours. Conflict if the key came with another body, or if the earlier
// request has no answer yet; without one a claim is free after a minute.
func (s *idempotency) ClaimKey(ctx context.Context, c *waypost.Claim, body []byte) (kept *waypost.Answer, err error) {
	defer wrap(&err, "claim an Idempotency-Key")
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		now := s.time()
		claimed := keyAnswerRow{ID: c.ID, Token: c.Token, Body: hex.EncodeToString(body), ClaimedAt: stamp{now}}
		if _, err := s.pruneKeys(ctx, tx, stamp{now.Add(-waypost.KeyLife)}, prunedKeys); err != nil {
			return err
		}
		var row keyAnswerRow
		for {
			n, err := affected(tx.NewInsert().Model(&claimed).On("CONFLICT (id) DO NOTHING").Returning("NULL").Exec(ctx))
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
		if kept, err = s.earlier(row, claimed); kept != nil || err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*answerLeadRow)(nil)).Where("key_id = ?", c.ID).Exec(ctx); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model(&claimed).WherePK().Exec(ctx)
		return err
	})
	return kept, err
}

// pruneKeys deletes up to n keys that have expired, and counts them.
func (s *idempotency) pruneKeys(ctx context.Context, tx bun.Tx, before stamp, n int) (int, error) {
	old := tx.NewSelect().Model((*keyAnswerRow)(nil)).Column("id").Where("claimed_at < ?", before).Order("claimed_at").Limit(int64(n))
	s.lockFor(old, forDelete+skipLocked) // others prune, too, or take one of them anew
	return affected(tx.NewDelete().Model((*keyAnswerRow)(nil)).Where("id IN (?)", old).Where("claimed_at < ?", before).Exec(ctx))
}

// answerPage lists keys for a sweep: where few come, no claim would prune them.
func (s *idempotency) answerPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().Model((*keyAnswerRow)(nil)).ColumnExpr("id, claimed_at AS number, TRUE AS is_over").
		Where("claimed_at < ? AND (claimed_at, id) > (?, ?)", p.before(), p.Number, p.ID).Order("claimed_at", "id").Limit(s.sweepPage())
}

func (s *idempotency) dropAnswers(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	return s.pruneKeys(ctx, tx, p.before(), len(rows))
}

// earlier returns what the key's earlier request was answered, nil if the key is
// free again.
func (s *idempotency) earlier(row, claimed keyAnswerRow) (*waypost.Answer, error) {
	age := claimed.ClaimedAt.Sub(row.ClaimedAt.Time)
	switch {
	case age >= waypost.KeyLife || row.Answer == nil && !row.Erased && age >= claimLife:
		return nil, nil
	case row.Erased:
		return nil, waypost.Errorf(waypost.CodeConflict, "Idempotency-Key",
			"the Idempotency-Key was used, and the answer was erased with the lead that it told of; nothing is done again")
	case row.Body != claimed.Body:
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

// keepResult writes the answer of the request that ctx belongs to, if it has an
// Idempotency-Key, into the transaction of its effect. result is what the method
// with the effect returns. It is a Conflict, which undoes the effect, if another
// request has the key meanwhile.
func (s *idempotency) keepResult(ctx context.Context, tx bun.Tx, result any) error {
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

func (s *idempotency) keepAnswer(ctx context.Context, tx bun.Tx, c *waypost.Claim, ans waypost.Answer) (n int, err error) {
	defer wrap(&err, "keep an answer")
	plain, err := json.Marshal(ans)
	if err != nil {
		return 0, err
	}
	// It may hold what is shown only once.
	n, err = affected(tx.NewUpdate().Model((*keyAnswerRow)(nil)).Set("answer = ?", s.keys.Seal(plain, answerPurpose(c.ID))).
		Where("id = ? AND token = ? AND answer IS NULL AND NOT erased", c.ID, c.Token).Exec(ctx))
	if n == 0 || err != nil || len(ans.Leads) == 0 {
		return n, err
	}
	return n, s.nameLeads(ctx, tx, c, ans.Leads)
}

// nameLeads notes the leads of the claim's scope that an answer tells of. The answer is erased at once if one of
// them is deleted: whoever deletes a lead waits for this transaction, or comes before it.
func (s *idempotency) nameLeads(ctx context.Context, tx bun.Tx, c *waypost.Claim, leads []int64) error {
	var there []int64
	q := tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").Order("leads_id").
		Where("org = ? AND stage = ? AND leads_id IN (?)", c.Scope.Org, c.Scope.Stage, bun.List(leads))
	if err := s.lockFor(q, forKey).Scan(ctx, &there); err != nil {
		return fmt.Errorf("look for the leads of an answer: %w", err)
	}
	if len(there) < len(distinct(leads)) {
		return eraseKeys(ctx, tx, []string{c.ID})
	}
	rows := make([]answerLeadRow, len(there))
	for i, lead := range there {
		rows[i] = answerLeadRow{LeadsID: lead, KeyID: c.ID}
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
	return err
}

// eraseKeys drops answers, and the hashes of what was asked. Their keys stay used.
func eraseKeys(ctx context.Context, tx bun.Tx, keys []string) error {
	_, err := tx.NewUpdate().Model((*keyAnswerRow)(nil)).Set("answer = NULL, body = '', erased = TRUE").Where("id IN (?)", bun.List(keys)).Exec(ctx)
	if err != nil {
		return fmt.Errorf("erase answers: %w", err)
	}
	return nil
}

// eraseAnswers drops the answers that tell of a lead, and counts them.
func eraseAnswers(ctx context.Context, tx bun.Tx, lead int64) (erased int, err error) {
	for {
		var keys []string
		err := tx.NewSelect().Model((*answerLeadRow)(nil)).Column("key_id").Where("leads_id = ?", lead).Order("key_id").Limit(erasePage).Scan(ctx, &keys)
		if err != nil || len(keys) == 0 {
			return erased, err
		}
		if err := eraseKeys(ctx, tx, keys); err != nil {
			return erased, err
		}
		if _, err := tx.NewDelete().Model((*answerLeadRow)(nil)).Where("leads_id = ? AND key_id IN (?)", lead, bun.List(keys)).Exec(ctx); err != nil {
			return erased, err
		}
		erased += len(keys)
	}
}

// KeepAnswer writes the answer of a claim whose effect did not: of a refusal, or of
// what has the same effect when it is done twice. If another request has the key
// meanwhile, nothing happens.
func (s *idempotency) KeepAnswer(ctx context.Context, c *waypost.Claim, ans waypost.Answer) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := s.keepAnswer(ctx, tx, c, ans)
		return err
	})
}

// ReleaseKey gives a key free that has no answer yet.
func (s *idempotency) ReleaseKey(ctx context.Context, c *waypost.Claim) (err error) {
	defer wrap(&err, "release an Idempotency-Key")
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model((*keyAnswerRow)(nil)).Where("id = ? AND token = ? AND answer IS NULL", c.ID, c.Token).Exec(ctx)
		return err
	})
}
