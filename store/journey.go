package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/uptrace/bun"

	"waypost"
)

type journeyRow struct {
	bun.BaseModel `bun:"table:journeys,alias:j"`

	ID               string `bun:"id,pk"`
	Org              string `bun:"org"`
	Stage            string `bun:"stage"`
	Name             string `bun:"name"`
	NameFolded       string `bun:"name_folded"`
	Draft            string `bun:"draft"`
	PublishedVersion int    `bun:"published_version"`
	Status           string `bun:"status"`
	CreatedAt        stamp  `bun:"created_at"`
	UpdatedAt        stamp  `bun:"updated_at"`
}

func (r journeyRow) journey() waypost.Journey {
	return waypost.Journey{
		ID: r.ID, Name: r.Name, Draft: json.RawMessage(r.Draft), PublishedVersion: r.PublishedVersion,
		Status: waypost.JourneyStatus(r.Status), CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
	}
}

// audited is the journey as its audit entries compare it.
func (r journeyRow) audited() fields {
	members := fields{"name": r.Name, "draft": json.RawMessage(r.Draft), "status": r.Status}
	if r.PublishedVersion > 0 {
		members["publishedVersion"] = r.PublishedVersion
	}
	return members
}

func (r journeyRow) scope() waypost.Scope {
	return waypost.Scope{Org: r.Org, Stage: waypost.Stage(r.Stage)}
}

type versionRow struct {
	bun.BaseModel `bun:"table:journey_versions,alias:v"`

	JourneyID   string `bun:"journey_id,pk"`
	Version     int    `bun:"version,pk"`
	Name        string `bun:"name"`
	Hash        string `bun:"hash"`
	Definition  string `bun:"definition"`
	PublishedAt stamp  `bun:"published_at"`
}

func (r versionRow) version(sc waypost.Scope) waypost.JourneyVersion {
	return waypost.JourneyVersion{
		Scope: sc, JourneyID: r.JourneyID, Version: r.Version, Name: r.Name, Hash: r.Hash,
		Definition: json.RawMessage(r.Definition), PublishedAt: r.PublishedAt.Time,
	}
}

type journeyWebhookRow struct {
	bun.BaseModel `bun:"table:journey_webhooks,alias:jw"`

	WebhookID string `bun:"webhook_id,pk"`
	JourneyID string `bun:"journey_id,pk"`
	Version   int    `bun:"version,pk"`
}

// journeyKeyRow is a tag or a webhook that lists find a journey by, or a segment that it uses.
type journeyKeyRow struct {
	bun.BaseModel `bun:"table:journey_keys,alias:jk"`

	Org       string `bun:"org,pk"`
	Stage     string `bun:"stage,pk"`
	Kind      string `bun:"kind,pk"` // keyTag, keyWebhook or keySegment
	Value     string `bun:"value,pk"`
	JourneyID string `bun:"journey_id,pk"`
	Published bool   `bun:"published"`
}

const keyTag, keyWebhook, keySegment = "tag", "webhook", "segment"

// maxKeys bounds the keys of a draft: one that can be published has no more tags, nodes and,
// by the size of its conditions, segments.
const maxKeys = waypost.MaxTags + 200 + 1200

// keys are those of a draft. What publishing refuses is none.
func (r journeyRow) keys() (keys []journeyKeyRow, err error) {
	var draft struct {
		Tags  []string
		Nodes []struct{ Webhook string }
	}
	if err := fromJSON(r.Draft, &draft); err != nil {
		return nil, err
	}
	add := func(kind, value string) {
		key := journeyKeyRow{Org: r.Org, Stage: r.Stage, Kind: kind, Value: value, JourneyID: r.ID}
		fits := value != "" && utf8.RuneCountInString(value) <= waypost.MaxTag && !strings.ContainsFunc(value, unicode.IsControl)
		if fits && len(keys) < maxKeys && !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	for _, tag := range draft.Tags[:min(len(draft.Tags), waypost.MaxTags)] {
		add(keyTag, strings.TrimSpace(tag))
	}
	for _, n := range draft.Nodes {
		add(keyWebhook, n.Webhook) // an id is shorter than a tag can be
	}
	for _, id := range segmentsIn(r.Draft) {
		add(keySegment, id)
	}
	return keys, nil
}

// replaceKeys stores the keys of a draft in the place of those of the draft before.
func (r journeyRow) replaceKeys(ctx context.Context, tx bun.Tx) error {
	keys, err := r.keys()
	if err == nil {
		_, err = tx.NewDelete().Model((*journeyKeyRow)(nil)).Where("journey_id = ? AND NOT published", r.ID).Exec(ctx)
	}
	if err == nil && len(keys) > 0 {
		_, err = tx.NewInsert().Model(&keys).On("CONFLICT DO NOTHING").Exec(ctx)
	}
	return err
}

func checkJourney(name string, draft []byte) error {
	var p waypost.Problems
	checkText(&p, "name", name)
	checkText(&p, "draft", string(draft))
	return p.Err("journey")
}

// CreateJourney stores a new journey with its draft (JSON) under an id minted
// here.
func (s *journeys) CreateJourney(ctx context.Context, by waypost.Caller, name string, draft []byte) (waypost.Journey, error) {
	return s.CreateJourneyAs(ctx, by, waypost.NewID(waypost.PrefixJourney, s.time()), name, draft)
}

// CreateJourneyAs is CreateJourney under a new id, which the draft may name.
func (s *journeys) CreateJourneyAs(ctx context.Context, by waypost.Caller, id, name string, draft []byte) (_ waypost.Journey, err error) {
	defer wrap(&err, "create journey")
	sc, author := by.Within()
	if err := checkJourney(name, draft); err != nil {
		return waypost.Journey{}, err
	}
	now := s.time()
	row := journeyRow{
		ID: id, Org: sc.Org, Stage: string(sc.Stage), Name: name, NameFolded: foldName(name), Draft: string(draft),
		Status: string(waypost.JourneyDraft), CreatedAt: stamp{now}, UpdatedAt: stamp{now},
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := row.replaceKeys(ctx, tx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "journey.create", row.ID, nil, row.audited()); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, row.journey())
	})
	return row.journey(), err
}

// Journey returns a journey with its draft; NotFound if the scope has none of
// this id.
func (s *journeys) Journey(ctx context.Context, sc waypost.Scope, id string) (_ waypost.Journey, err error) {
	defer wrap(&err, "load journey %s", clip(id))
	row, err := s.journeyRow(ctx, sc, id)
	return row.journey(), err
}

func (s *journeys) journeyRow(ctx context.Context, sc waypost.Scope, id string) (journeyRow, error) {
	row, err := rowByID[journeyRow](ctx, s.db, sc, "id", cleanText(id))
	return row, notFound(err, "id", "there is no journey %s", clip(id))
}

func (s *journeys) lockJourney(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) (row journeyRow, err error) {
	err = scanByID(ctx, s.lock(tx.NewSelect().Model(&row), "j"), sc, "journey", id)
	return row, err
}

// ListJourneys returns the journeys of the scope that match the filter, with their drafts,
// newest first.
func (s *journeys) ListJourneys(
	ctx context.Context, sc waypost.Scope, f waypost.JourneyFilter, page waypost.Page,
) (_ []waypost.Journey, err error) {
	defer wrap(&err, "list journeys")
	p := namedPage{alias: "j", id: "j.id", prefix: f.Name, Page: page}
	keys := []struct{ kind, value string }{{keyTag, f.Tag}, {keyWebhook, f.WebhookID}}
	for _, key := range keys {
		if key.value != "" {
			p.id = "by_" + key.kind + ".journey_id" // the key's index has the order, too
		}
	}
	rows, err := scanNamed[journeyRow](ctx, s.db, p, func() *bun.SelectQuery {
		q := s.r.NewSelect().Model((*journeyRow)(nil)).Where("j.org = ? AND j.stage = ?", sc.Org, sc.Stage)
		for _, key := range keys {
			if key.value == "" {
				continue
			}
			value := cleanText(key.value)
			if key.kind == keyTag {
				value = strings.TrimSpace(value) // as keys stores it; a blank one finds nothing
			}
			alias := "by_" + key.kind
			q.Join("JOIN journey_keys AS "+alias+" ON "+alias+".journey_id = j.id").
				Where(alias+".org = ? AND "+alias+".stage = ? AND "+alias+".kind = ? AND "+alias+".value = ?", sc.Org, sc.Stage, key.kind, value)
		}
		if f.Status != "" {
			q.Where("j.status = ?", cleanText(string(f.Status)))
		}
		return q
	})
	return mapped(rows, journeyRow.journey), err
}

// UpdateJourneyDraft replaces a journey's name and draft unless check (unless nil), which
// sees it as it is, refuses; what is published stays as it is. NotFound if the scope has
// no journey of this id.
func (s *journeys) UpdateJourneyDraft(
	ctx context.Context, by waypost.Caller, id, name string, draft []byte, check func(waypost.Journey) error,
) (_ waypost.Journey, err error) {
	defer wrap(&err, "update journey %s", clip(id))
	sc, author := by.Within()
	if err := checkJourney(name, draft); err != nil {
		return waypost.Journey{}, err
	}
	var row journeyRow
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if row, err = s.lockJourney(ctx, tx, sc, id); err != nil {
			return err
		}
		if check != nil {
			if err := check(row.journey()); err != nil {
				return err
			}
		}
		before := row.audited()
		row.Name, row.NameFolded, row.Draft, row.UpdatedAt = name, foldName(name), string(draft), stamp{s.time()}
		if _, err = tx.NewUpdate().Model(&row).Column("name", "name_folded", "draft", "updated_at").WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := row.replaceKeys(ctx, tx); err != nil {
			return err
		}
		return s.audit.add(ctx, tx, author, "journey.update", id, before, row.audited())
	})
	return row.journey(), err
}

// DeleteJourney deletes a journey that was never published, unless check (unless nil),
// which sees it as it is, refuses; a published one is a Conflict. NotFound if the scope
// has none of this id.
func (s *journeys) DeleteJourney(ctx context.Context, by waypost.Caller, id string, check func(waypost.Journey) error) (err error) {
	defer wrap(&err, "delete journey %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockJourney(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(row.journey()); err != nil {
				return err
			}
		}
		if row.PublishedVersion > 0 {
			return waypost.Errorf(waypost.CodeConflict, "id", "the journey was published; archive it instead")
		}
		if _, err = tx.NewDelete().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.audit.add(ctx, tx, author, "journey.delete", id, row.audited(), nil)
	})
}

// PublishJourney makes the next version of a journey; exitOn of its definition says which
// events and segments end enrollments, and from now on it begins as p.Entry says. If the hash is
// the newest version's, that version is returned, and is not Created. Concurrent calls make
// consecutive versions. NotFound if the scope has no journey of this id, BadRequest if it lacks
// one of the webhooks or of the segments that the definition names, or if waypost.MaxEntryRules
// journeys begin by one of the occasions already.
func (s *journeys) PublishJourney(
	ctx context.Context, by waypost.Caller, id string, p waypost.Publication,
) (v waypost.JourneyVersion, err error) {
	defer wrap(&err, "publish journey %s", clip(id))
	sc, author := by.Within()
	if err := checkJourney(p.Name, p.Definition); err != nil {
		return v, err
	}
	segments, err := enteredSegments(p)
	if err != nil {
		return v, err
	}
	for range maxTries {
		if err := s.segmentWatches.watchAll(ctx, sc, segments); err != nil {
			return v, err
		}
		v, err = s.publishJourney(ctx, sc, author, id, p, segments)
		if !errors.Is(err, errUnwatched) {
			break
		}
	}
	return v, err
}

// publishJourney is PublishJourney, if the segments that begin or end the version are watched.
func (s *journeys) publishJourney(
	ctx context.Context, sc waypost.Scope, author *waypost.Author, id string, p waypost.Publication, segments []string,
) (v waypost.JourneyVersion, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		journey, err := s.lockJourney(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if err := s.segmentWatches.holdWatches(ctx, tx, sc, segments); err != nil {
			return err
		}
		var row versionRow
		err = tx.NewSelect().Model(&row).Where("journey_id = ?", id).Order("version DESC").Limit(1).Scan(ctx)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		if row.Version > 0 && row.Hash == p.Hash {
			status, err := s.inUse(ctx, tx, journey)
			if err != nil {
				return err
			}
			if string(status) != journey.Status {
				before := journey.audited()
				if err := s.setStatus(ctx, tx, &journey, status); err != nil {
					return err
				}
				if err := s.entries.replaceEntryRules(ctx, tx, journey, row.Version, p.Entry); err != nil {
					return err
				}
				if err := s.audit.add(ctx, tx, author, "journey.publish", id, before, journey.audited()); err != nil {
					return err
				}
			}
			v = row.version(sc)
			return s.idempotency.keepResult(ctx, tx, v)
		}
		row = versionRow{
			JourneyID: id, Version: row.Version + 1, Name: p.Name, Hash: p.Hash,
			Definition: string(p.Definition), PublishedAt: stamp{s.time()},
		}
		before := journey.audited()
		if err := s.publish(ctx, tx, &journey, row, p.Webhooks); err != nil {
			return err
		}
		if err := s.entries.replaceEntryRules(ctx, tx, journey, row.Version, p.Entry); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "journey.publish", id, before, journey.audited()); err != nil {
			return err
		}
		v = row.version(sc)
		v.Created = true
		err = s.announcements.announce(ctx, tx, happening{Scope: sc, what: waypost.JourneyPublished, journeyID: id, at: v.PublishedAt, data: journeyPublished{
			JourneyID: id, JourneyName: v.Name, Version: v.Version,
		}})
		if err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, v)
	})
	return v, err
}

// publish stores a version and all that is looked up by it, and makes it the journey's published one.
// BadRequest if the scope lacks a webhook or a segment of the definition.
func (s *journeys) publish(ctx context.Context, tx bun.Tx, journey *journeyRow, row versionRow, webhooks []string) error {
	missing, err := s.webhooks.missingWebhooks(ctx, tx, journey.scope(), webhooks)
	if err != nil {
		return err
	}
	var p waypost.Problems
	for _, webhook := range missing {
		p.Add(waypost.DetailInvalidFormat, "nodes", "there is no webhook %s", clip(webhook))
	}
	segments := segmentsIn(row.Definition)
	if missing, err = s.segments.missingSegments(ctx, tx, journey.scope(), segments); err != nil {
		return err
	}
	for _, id := range missing {
		p.Add(waypost.DetailInvalidFormat, "nodes", "there is no segment %s", clip(id))
	}
	if err := p.Err("nodes"); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return err
	}
	if err := addExits(ctx, tx, row); err != nil {
		return err
	}
	if err := addGoal(ctx, tx, journey.scope(), row); err != nil {
		return err
	}
	names := mapped(distinct(webhooks), func(webhook string) journeyWebhookRow {
		return journeyWebhookRow{WebhookID: webhook, JourneyID: row.JourneyID, Version: row.Version}
	})
	if len(names) > 0 {
		if _, err := tx.NewInsert().Model(&names).Exec(ctx); err != nil {
			return err
		}
	}
	key := func(kind string) func(string) journeyKeyRow {
		return func(id string) journeyKeyRow {
			return journeyKeyRow{Org: journey.Org, Stage: journey.Stage, Kind: kind, Value: id, JourneyID: row.JourneyID, Published: true}
		}
	}
	if keys := slices.Concat(mapped(distinct(webhooks), key(keyWebhook)), mapped(segments, key(keySegment))); len(keys) > 0 {
		_, err := tx.NewInsert().Model(&keys).On("CONFLICT (org, stage, kind, value, journey_id) DO UPDATE").Set("published = TRUE").Exec(ctx)
		if err != nil {
			return err
		}
	}
	status, err := s.inUse(ctx, tx, *journey)
	if err != nil {
		return err
	}
	journey.PublishedVersion, journey.UpdatedAt, journey.Status = row.Version, row.PublishedAt, string(status)
	_, err = tx.NewUpdate().Model(journey).Column("published_version", "status", "updated_at").WherePK().Exec(ctx)
	return err
}

// JourneyVersion returns a published version; NotFound if the scope has no such
// journey or the journey no such version.
func (s *journeys) JourneyVersion(ctx context.Context, sc waypost.Scope, id string, version int) (_ waypost.JourneyVersion, err error) {
	defer wrap(&err, "load journey %s", clip(id))
	var row versionRow
	err = s.r.NewSelect().Model(&row).Join("JOIN journeys AS j ON j.id = v.journey_id").
		Where("v.journey_id = ? AND v.version = ? AND j.org = ? AND j.stage = ?", cleanText(id), version, sc.Org, sc.Stage).Scan(ctx)
	return row.version(sc), notFound(err, "version", "there is no version %d of journey %s", version, clip(id))
}
