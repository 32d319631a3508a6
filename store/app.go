package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
)

type applicationRow struct {
	bun.BaseModel `bun:"table:applications,alias:app"`

	ID             string `bun:"id,pk"`
	Org            string `bun:"org"`
	Name           string `bun:"name"`
	Grants         string `bun:"grants"`
	Disabled       bool   `bun:"disabled"`
	RatePerSecond  int    `bun:"rate_per_second"`
	RateBurst      int    `bun:"rate_burst"`
	RequireIfMatch bool   `bun:"require_if_match"`
	CreatedAt      stamp  `bun:"created_at"`
}

func (r applicationRow) application() (waypost.Application, error) {
	app := waypost.Application{
		ID: r.ID, Org: r.Org, Name: r.Name, Disabled: r.Disabled,
		RatePerSecond: r.RatePerSecond, RateBurst: r.RateBurst, RequireIfMatch: r.RequireIfMatch,
		CreatedAt: r.CreatedAt.Time,
	}
	return app, fromJSON(r.Grants, &app.Grants)
}

// keyRow is an access key. Number counts the keys that an application ever had.
type keyRow struct {
	bun.BaseModel `bun:"table:access_keys,alias:k"`

	AccessKey     string `bun:"access_key,pk"`
	ApplicationID string `bun:"application_id"`
	Number        int    `bun:"number"`
	Secret        []byte `bun:"secret"`
	CreatedAt     stamp  `bun:"created_at"`
	RevokedAt     stamp  `bun:"revoked_at"`
}

func (r keyRow) info() waypost.KeyInfo {
	return waypost.KeyInfo{AccessKey: r.AccessKey, CreatedAt: r.CreatedAt.Time}
}

func accessKeyPurpose(accessKey string) string { return "access-key/" + accessKey }

// Request limits of an application that names none.
const (
	defaultRatePerSecond = 100
	defaultRateBurst     = 200
)

// CreateApplication stores a new application with a first key, for an actor whom the audit
// log names; "" for Waypost itself, here and below. ID, keys and
// CreatedAt are minted here, a limit of 0 becomes the default. The secret in the
// answer is shown this once; BadRequest if a field is faulty.
func (s *apps) CreateApplication(ctx context.Context, actor string, app waypost.Application) (c waypost.Credential, err error) {
	app.RatePerSecond = cmp.Or(app.RatePerSecond, defaultRatePerSecond)
	app.RateBurst = cmp.Or(app.RateBurst, defaultRateBurst)
	if err := app.Validate(); err != nil {
		return c, err
	}
	defer wrap(&err, "create application")
	grants, err := toJSON(app.Grants)
	if err != nil {
		return c, err
	}
	now := s.time()
	row := applicationRow{
		ID: waypost.NewID(waypost.PrefixApplication, now), Org: app.Org, Name: app.Name, Grants: grants, Disabled: app.Disabled,
		RatePerSecond: app.RatePerSecond, RateBurst: app.RateBurst, RequireIfMatch: app.RequireIfMatch, CreatedAt: stamp{now},
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if c, err = s.addKey(ctx, tx, row, nil); err != nil {
			return err
		}
		return s.auditApplication(ctx, tx, actor, "application.create", row, nil, fields{
			"org": app.Org, "name": app.Name, "grants": app.Grants, "ratePerSecond": app.RatePerSecond, "rateBurst": app.RateBurst,
			"requireIfMatch": app.RequireIfMatch, "accessKey": c.AccessKey,
		})
	})
	return c, err
}

// RotateKey gives an application another key and returns it with its secret,
// for the only time. Of two active keys the older one is revoked first. NotFound
// if there is no such application.
func (s *apps) RotateKey(ctx context.Context, actor, appID string) (c waypost.Credential, err error) {
	defer wrap(&err, "rotate key of %s", clip(appID))
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockApplication(ctx, tx, appID)
		if err != nil {
			return err
		}
		var keys []keyRow
		if err := tx.NewSelect().Model(&keys).Where("application_id = ?", appID).Order("number").Scan(ctx); err != nil {
			return err
		}
		if c, err = s.addKey(ctx, tx, row, keys); err != nil {
			return err
		}
		return s.auditApplication(ctx, tx, actor, "application.rotate", row, nil, fields{"accessKey": c.AccessKey})
	})
	return c, err
}

// addKey adds a key to those that the application ever had, oldest first.
func (s *apps) addKey(ctx context.Context, tx bun.Tx, row applicationRow, keys []keyRow) (waypost.Credential, error) {
	app, err := row.application()
	if err != nil {
		return waypost.Credential{}, err
	}
	now := s.time()
	active := slices.DeleteFunc(slices.Clone(keys), func(k keyRow) bool { return !k.RevokedAt.IsZero() })
	for len(active) >= waypost.MaxActiveKeys {
		if _, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("revoked_at = ?", stamp{now}).Where("access_key = ?", active[0].AccessKey).Exec(ctx); err != nil {
			return waypost.Credential{}, err
		}
		active = active[1:]
	}
	secret := "sk_" + strings.ToLower(rand.Text()+rand.Text())
	key := keyRow{AccessKey: "AK" + rand.Text(), ApplicationID: row.ID, Number: len(keys) + 1, CreatedAt: stamp{now}}
	key.Secret = s.seal(secret, accessKeyPurpose(key.AccessKey))
	if _, err := tx.NewInsert().Model(&key).Exec(ctx); err != nil {
		return waypost.Credential{}, err
	}
	app.Keys = mapped(append(active, key), keyRow.info)
	return waypost.Credential{Application: app, AccessKey: key.AccessKey, SecretKey: secret}, nil
}

func (s *apps) lockApplication(ctx context.Context, tx bun.Tx, id string) (row applicationRow, err error) {
	q := tx.NewSelect().Model(&row).Where("id = ?", cleanText(id))
	return row, scanOne(ctx, s.lock(q, "app"), "application", id)
}

// DisableApplication makes all keys of an application useless for good. NotFound
// if there is no such application.
func (s *apps) DisableApplication(ctx context.Context, actor, appID string) (err error) {
	defer wrap(&err, "disable application %s", clip(appID))
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockApplication(ctx, tx, appID)
		if err != nil || row.Disabled {
			return err
		}
		row.Disabled = true
		if _, err := tx.NewUpdate().Model(&row).Column("disabled").WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.auditApplication(ctx, tx, actor, "application.disable", row, fields{"disabled": false}, fields{"disabled": true})
	})
}

// auditApplication is audit for an application, which belongs to no stage: its entries are
// among those of release. Without an actor it is Waypost itself that acts.
func (s *apps) auditApplication(ctx context.Context, tx bun.Tx, actor, action string, row applicationRow, before, after any) error {
	if actor == "" {
		return nil
	}
	by := waypost.Author{Scope: waypost.Scope{Org: row.Org, Stage: waypost.StageRelease}, Actor: actor}
	return s.audit.add(ctx, tx, &by, action, row.ID, before, after)
}

// Applications returns the applications of an organisation, oldest first, with
// their active keys; of all organisations if org is empty.
func (s *apps) Applications(ctx context.Context, org string) (apps []waypost.Application, err error) {
	defer wrap(&err, "list applications")
	var rows []applicationRow
	var keys []keyRow
	q := s.r.NewSelect().Model(&rows).Order("id")
	if org != "" {
		q.Where("org = ?", org)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, err
	}
	err = s.r.NewSelect().Model(&keys).Column("access_key", "application_id", "created_at").
		Where("revoked_at IS NULL").Order("application_id", "number").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("load access keys: %w", err)
	}
	active := map[string][]waypost.KeyInfo{}
	for _, k := range keys {
		active[k.ApplicationID] = append(active[k.ApplicationID], k.info())
	}
	apps, err = decoded(rows, applicationRow.application)
	for i := range apps {
		apps[i].Keys = active[apps[i].ID]
	}
	return apps, err
}

// Application returns an application, disabled or not; NotFound if there is none of
// this id. Keys stays empty.
func (s *apps) Application(ctx context.Context, id string) (app waypost.Application, err error) {
	defer wrap(&err, "load application %s", clip(id))
	var row applicationRow
	if err := scanOne(ctx, s.r.NewSelect().Model(&row).Where("id = ?", cleanText(id)), "application", id); err != nil {
		return app, err
	}
	return row.application()
}

// Credential returns the application and the secret of an access key, in one
// query. NotFound if the key is unknown or revoked; a disabled application comes
// with Disabled set. Application.Keys stays empty.
func (s *apps) Credential(ctx context.Context, accessKey string) (c waypost.Credential, err error) {
	defer wrap(&err, "load access key")
	var row struct {
		applicationRow `bun:",extend"`
		AccessKey      string `bun:"access_key"`
		Secret         []byte `bun:"secret"`
	}
	if len(accessKey) > 128 || cleanText(accessKey) != accessKey {
		return c, waypost.Errorf(waypost.CodeNotFound, "", "there is no such access key")
	}
	err = s.r.NewSelect().TableExpr("access_keys AS k").Join("JOIN applications AS app ON app.id = k.application_id").
		ColumnExpr("app.*, k.access_key, k.secret").
		Where("k.access_key = ?", accessKey).Where("k.revoked_at IS NULL").Scan(ctx, &row)
	if err != nil {
		return c, notFound(err, "", "there is no such access key")
	}
	c.AccessKey = row.AccessKey
	if c.Application, err = row.application(); err != nil {
		return c, err
	}
	if c.SecretKey, err = s.unseal(row.Secret, accessKeyPurpose(row.AccessKey)); err != nil {
		return c, fmt.Errorf("open the secret of a key of %s: %w", row.ID, err)
	}
	return c, nil
}

// clip bounds input that a message repeats. Ids that we mint are shorter.
func clip(id string) string {
	if len(id) > 40 {
		return strings.ToValidUTF8(id[:40], "") + "…"
	}
	return id
}
