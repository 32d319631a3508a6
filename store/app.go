package store

import (
	"context"
	"crypto/rand"
	"fmt"
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

func (r keyRow) purpose() string { return "access-key/" + r.AccessKey }

// Request limits of an application that names none.
const (
	defaultRatePerSecond = 100
	defaultRateBurst     = 200
)

// CreateApplication stores a new application with a first key. ID, keys and
// CreatedAt are minted here, a limit of 0 becomes the default. The secret in the
// answer is shown this once; BadRequest if a field is faulty.
func (s *Store) CreateApplication(ctx context.Context, app waypost.Application) (waypost.Credential, error) {
	if app.RatePerSecond == 0 {
		app.RatePerSecond = defaultRatePerSecond
	}
	if app.RateBurst == 0 {
		app.RateBurst = defaultRateBurst
	}
	if err := app.Validate(); err != nil {
		return waypost.Credential{}, err
	}
	grants, err := toJSON(app.Grants)
	if err != nil {
		return waypost.Credential{}, err
	}
	now := s.time()
	row := applicationRow{
		ID: waypost.NewID(waypost.PrefixApplication, now), Org: app.Org, Name: app.Name, Grants: grants, Disabled: app.Disabled,
		RatePerSecond: app.RatePerSecond, RateBurst: app.RateBurst, RequireIfMatch: app.RequireIfMatch, CreatedAt: stamp{now},
	}
	var c waypost.Credential
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		c, err = s.addKey(ctx, tx, row, nil)
		return err
	})
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("create application: %w", err)
	}
	return c, nil
}

// RotateKey gives an application another key and returns it with its secret,
// for the only time. Of two active keys the older one is revoked first. NotFound
// if there is no such application.
func (s *Store) RotateKey(ctx context.Context, appID string) (waypost.Credential, error) {
	var c waypost.Credential
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockApplication(ctx, tx, appID)
		if err != nil {
			return err
		}
		var keys []keyRow
		if err := tx.NewSelect().Model(&keys).Where("application_id = ?", appID).Order("number").Scan(ctx); err != nil {
			return err
		}
		c, err = s.addKey(ctx, tx, row, keys)
		return err
	})
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("rotate key of %s: %w", clip(appID), err)
	}
	return c, nil
}

// addKey adds a key to those that the application ever had, oldest first.
func (s *Store) addKey(ctx context.Context, tx bun.Tx, row applicationRow, keys []keyRow) (waypost.Credential, error) {
	app, err := row.application()
	if err != nil {
		return waypost.Credential{}, err
	}
	now := s.time()
	var active []keyRow
	for _, k := range keys {
		if k.RevokedAt.IsZero() {
			active = append(active, k)
		}
	}
	for len(active) >= waypost.MaxActiveKeys {
		if _, err := tx.NewUpdate().Model((*keyRow)(nil)).Set("revoked_at = ?", stamp{now}).Where("access_key = ?", active[0].AccessKey).Exec(ctx); err != nil {
			return waypost.Credential{}, err
		}
		active = active[1:]
	}
	secret := "sk_" + strings.ToLower(rand.Text()+rand.Text())
	key := keyRow{AccessKey: "AK" + rand.Text(), ApplicationID: row.ID, Number: len(keys) + 1, CreatedAt: stamp{now}}
	key.Secret = s.seal(secret, key.purpose())
	if _, err := tx.NewInsert().Model(&key).Exec(ctx); err != nil {
		return waypost.Credential{}, err
	}
	for _, k := range append(active, key) {
		app.Keys = append(app.Keys, waypost.KeyInfo{AccessKey: k.AccessKey, CreatedAt: k.CreatedAt.Time})
	}
	return waypost.Credential{Application: app, AccessKey: key.AccessKey, SecretKey: secret}, nil
}

func (s *Store) lockApplication(ctx context.Context, tx bun.Tx, appID string) (row applicationRow, err error) {
	if !waypost.IsID(waypost.PrefixApplication, appID) {
		return row, waypost.Errorf(waypost.CodeNotFound, "id", "there is no application %s", clip(appID))
	}
	err = s.lock(tx.NewSelect().Model(&row).Where("id = ?", appID), "app").Scan(ctx)
	return row, notFound(err, "id", "there is no application %s", appID)
}

// DisableApplication makes all keys of an application useless for good. NotFound
// if there is no such application.
func (s *Store) DisableApplication(ctx context.Context, appID string) error {
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := s.lockApplication(ctx, tx, appID); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model((*applicationRow)(nil)).Set("disabled = ?", true).Where("id = ?", appID).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("disable application %s: %w", clip(appID), err)
	}
	return nil
}

// Applications returns the applications of an organisation, oldest first, with
// their active keys; of all organisations if org is empty.
func (s *Store) Applications(ctx context.Context, org string) ([]waypost.Application, error) {
	var rows []applicationRow
	var keys []keyRow
	q := s.r.NewSelect().Model(&rows).Order("id")
	if org != "" {
		q.Where("org = ?", org)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("list applications: %w", err)
	}
	err := s.r.NewSelect().Model(&keys).Column("access_key", "application_id", "created_at").
		Where("revoked_at IS NULL").Order("application_id", "number").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("list access keys: %w", err)
	}
	active := map[string][]waypost.KeyInfo{}
	for _, k := range keys {
		active[k.ApplicationID] = append(active[k.ApplicationID], waypost.KeyInfo{AccessKey: k.AccessKey, CreatedAt: k.CreatedAt.Time})
	}
	apps := make([]waypost.Application, len(rows))
	for i, row := range rows {
		app, err := row.application()
		if err != nil {
			return nil, fmt.Errorf("list applications: %w", err)
		}
		app.Keys = active[app.ID]
		apps[i] = app
	}
	return apps, nil
}

// Application returns an application, disabled or not; NotFound if there is none of
// this id. Keys stays empty.
func (s *Store) Application(ctx context.Context, id string) (waypost.Application, error) {
	if !waypost.IsID(waypost.PrefixApplication, id) {
		return waypost.Application{}, waypost.Errorf(waypost.CodeNotFound, "id", "there is no application %s", clip(id))
	}
	var row applicationRow
	if err := s.r.NewSelect().Model(&row).Where("id = ?", id).Scan(ctx); err != nil {
		return waypost.Application{}, fmt.Errorf("load application %s: %w", id, notFound(err, "id", "there is no application %s", id))
	}
	return row.application()
}

// Credential returns the application and the secret of an access key, in one
// query. NotFound if the key is unknown or revoked; a disabled application comes
// with Disabled set. Application.Keys stays empty.
func (s *Store) Credential(ctx context.Context, accessKey string) (waypost.Credential, error) {
	var row struct {
		applicationRow `bun:",extend"`
		AccessKey      string `bun:"access_key"`
		Secret         []byte `bun:"secret"`
	}
	if len(accessKey) > 128 || cleanText(accessKey) != accessKey {
		return waypost.Credential{}, waypost.Errorf(waypost.CodeNotFound, "", "there is no such access key")
	}
	err := s.r.NewSelect().TableExpr("access_keys AS k").Join("JOIN applications AS app ON app.id = k.application_id").
		ColumnExpr("app.*, k.access_key, k.secret").
		Where("k.access_key = ?", accessKey).Where("k.revoked_at IS NULL").Scan(ctx, &row)
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("load access key: %w", notFound(err, "", "there is no such access key"))
	}
	app, err := row.application()
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("load access key: %w", err)
	}
	secret, err := s.unseal(row.Secret, keyRow{AccessKey: row.AccessKey}.purpose())
	if err != nil {
		return waypost.Credential{}, fmt.Errorf("open secret of an access key of %s: %w", app.ID, err)
	}
	return waypost.Credential{Application: app, AccessKey: row.AccessKey, SecretKey: secret}, nil
}

// clip bounds input that a message repeats. Ids that we mint are shorter.
func clip(id string) string {
	if len(id) > 40 {
		return strings.ToValidUTF8(id[:40], "") + "…"
	}
	return id
}
