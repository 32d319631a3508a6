package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"modernc.org/sqlite"

	"waypost"
)

type leadRow struct {
	bun.BaseModel `bun:"table:leads,alias:l"`

	LeadsID        int64   `bun:"leads_id,pk,autoincrement"`
	Org            string  `bun:"org"`
	Stage          string  `bun:"stage"`
	LeadsGroup     *int64  `bun:"leads_group"`
	Region         *int64  `bun:"region"`
	Address        *string `bun:"address"`
	Remark         *string `bun:"remark"`
	Name           string  `bun:"name"`
	NameFolded     string  `bun:"name_folded"` // for lists, as foldText has it
	MobilePhone    string  `bun:"mobile_phone"`
	Gender         *int64  `bun:"gender"`
	Birthday       *string `bun:"birthday"`
	Email          *string `bun:"email"`
	EmailFolded    *string `bun:"email_folded"`
	Wechat         *string `bun:"wechat"`
	QQ             *string `bun:"qq"`
	Telephone      *string `bun:"telephone"`
	Company        *string `bun:"company"`
	CompanyPhone   *string `bun:"company_phone"`
	CompanyEmail   *string `bun:"company_email"`
	CompanyWebsite *string `bun:"company_website"`
	ExternalID     *string `bun:"external_id"`
	OpenID         *string `bun:"open_id"`
	CustomFields   *string `bun:"custom_fields"`
	CreatedAt      stamp   `bun:"created_at"`
	UpdatedAt      stamp   `bun:"updated_at"`
}

func (r leadRow) lead() (waypost.Lead, error) {
	lead := waypost.Lead{
		LeadsID: r.LeadsID, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
		LeadFields: waypost.LeadFields{
			LeadsGroup: r.LeadsGroup, Region: r.Region, Address: r.Address, Remark: r.Remark, Name: r.Name,
			Gender: r.Gender, Birthday: r.Birthday, Email: r.Email, Wechat: r.Wechat, QQ: r.QQ,
			Telephone: r.Telephone, Company: r.Company, CompanyPhone: r.CompanyPhone, CompanyEmail: r.CompanyEmail,
			CompanyWebsite: r.CompanyWebsite, ExternalID: r.ExternalID, OpenID: r.OpenID,
		},
	}
	err := fromJSON(r.MobilePhone, &lead.MobilePhone)
	if r.CustomFields != nil {
		err = errors.Join(err, fromJSON(*r.CustomFields, &lead.CustomFields))
	}
	return lead, err
}

func newLeadRow(sc waypost.Scope, f waypost.LeadFields) (leadRow, error) {
	row := leadRow{
		Org: sc.Org, Stage: string(sc.Stage),
		LeadsGroup: f.LeadsGroup, Region: f.Region, Address: f.Address, Remark: f.Remark, Name: f.Name,
		Gender: f.Gender, Birthday: f.Birthday, Email: f.Email, Wechat: f.Wechat, QQ: f.QQ,
		Telephone: f.Telephone, Company: f.Company, CompanyPhone: f.CompanyPhone, CompanyEmail: f.CompanyEmail,
		CompanyWebsite: f.CompanyWebsite, ExternalID: f.ExternalID, OpenID: f.OpenID,
	}
	if row.ExternalID != nil && *row.ExternalID == "" {
		row.ExternalID = nil // an empty one identifies nobody
	}
	row.NameFolded = foldText(row.Name)
	if row.Email != nil {
		folded := foldText(*row.Email)
		row.EmailFolded = &folded
	}
	var err error
	if f.MobilePhone == nil {
		f.MobilePhone = []string{}
	}
	if row.MobilePhone, err = toJSON(f.MobilePhone); err != nil {
		return row, err
	}
	if f.CustomFields != nil {
		custom, err := toJSON(f.CustomFields)
		if err != nil {
			return row, err
		}
		row.CustomFields = &custom
	}
	var p waypost.Problems
	checkText(&p, "name", row.Name)
	for _, field := range []struct {
		name string
		text *string
	}{
		{"address", row.Address}, {"remark", row.Remark}, {"birthday", row.Birthday}, {"email", row.Email},
		{"wechat", row.Wechat}, {"qq", row.QQ}, {"telephone", row.Telephone}, {"company", row.Company},
		{"companyPhone", row.CompanyPhone}, {"companyEmail", row.CompanyEmail}, {"companyWebsite", row.CompanyWebsite},
		{"externalId", row.ExternalID}, {"openId", row.OpenID},
	} {
		if field.text != nil {
			checkText(&p, field.name, *field.text)
		}
	}
	return row, p.Err("businessParam")
}

type phoneRow struct {
	bun.BaseModel `bun:"table:lead_phones,alias:p"`

	Org     string `bun:"org,pk"`
	Stage   string `bun:"stage,pk"`
	Phone   string `bun:"phone,pk"`
	LeadsID int64  `bun:"leads_id"`
}

// errDuplicate ends the transaction of a lead that another one stands in the
// way of.
var errDuplicate = errors.New("duplicate lead")

// CreateLead stores a new lead. phones are its mobile numbers in E.164, in the
// order of f.MobilePhone. A lead of the same organisation and stage with the same
// externalId or one of the numbers is a Conflict (docs/contract.md, "Lead validation"): target
// "externalId" or "mobilePhone", a detail Duplicate for each ("mobilePhone[1]")
// whose message holds the other's leadsId.
func (s *Store) CreateLead(ctx context.Context, sc waypost.Scope, f waypost.LeadFields, phones []string) (waypost.Lead, error) {
	row, err := newLeadRow(sc, f)
	if err != nil {
		return waypost.Lead{}, err
	}
	now := s.time()
	row.CreatedAt, row.UpdatedAt = stamp{now}, stamp{now}
	var lead waypost.Lead
	for range maxTries {
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			if err := insertLead(ctx, tx, &row, phones); err != nil {
				return err
			}
			if lead, err = row.lead(); err != nil {
				return err
			}
			return s.keep(ctx, tx, lead)
		})
		if err == nil {
			return lead, nil
		}
		if !errors.Is(err, errDuplicate) {
			return waypost.Lead{}, fmt.Errorf("create lead: %w", err)
		}
		row.LeadsID = 0 // nobody's
		if err := s.duplicate(ctx, row, phones); err != nil {
			return waypost.Lead{}, fmt.Errorf("create lead: %w", err)
		}
		// The other lead was deleted meanwhile: the way is free.
	}
	return waypost.Lead{}, fmt.Errorf("create lead: %w", errFleeting)
}

// errFleeting says that others stood in the way at every try, and were gone when
// they were looked for.
var errFleeting = errors.New("duplicates come and go")

// UpdateLead replaces the fields of a lead. change sees it as it is, while nobody
// else can change it, and returns its new fields and mobile numbers (as CreateLead
// takes them; nil for those that it has); it may run again and must not keep anything. An error of change ends
// the update and is returned. updatedAt moves on by a millisecond at least.
// NotFound if the scope has none of this id; what another lead has is a Conflict, as
// CreateLead reports it.
func (s *Store) UpdateLead(ctx context.Context, sc waypost.Scope, id int64, change func(waypost.Lead) (f waypost.LeadFields, phones []string, err error)) (waypost.Lead, error) {
	for range maxTries {
		var lead waypost.Lead
		var row leadRow
		var phones []string
		var refused error
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			stored, err := s.lockLead(ctx, tx, sc, id, forChange)
			if err != nil {
				return err
			}
			before, err := stored.lead()
			if err != nil {
				return err
			}
			var f waypost.LeadFields
			if f, phones, refused = change(before); refused != nil {
				return refused
			}
			if row, err = newLeadRow(sc, f); err != nil {
				return err
			}
			row.LeadsID, row.CreatedAt, row.UpdatedAt = id, stamp{before.CreatedAt}, stamp{later(s.time(), before.UpdatedAt)}
			if err := updateLead(ctx, tx, before, row, phones); err != nil {
				return err
			}
			if err := s.tellFollowers(ctx, tx, []leadChange{{&stored, &row}}, false); err != nil {
				return err
			}
			lead, err = row.lead()
			return err
		})
		switch {
		case err == nil:
			return lead, nil
		case refused != nil:
			return waypost.Lead{}, refused
		case !errors.Is(err, errDuplicate):
			return waypost.Lead{}, fmt.Errorf("update lead %d: %w", id, err)
		}
		if err := s.duplicate(ctx, row, phones); err != nil {
			return waypost.Lead{}, fmt.Errorf("update lead %d: %w", id, err)
		}
	}
	return waypost.Lead{}, fmt.Errorf("update lead %d: %w", id, errFleeting)
}

// later is now, or a moment after before if both are shown alike.
func later(now, before time.Time) time.Time {
	if now.Truncate(time.Millisecond).After(before.Truncate(time.Millisecond)) {
		return now
	}
	return before.Add(time.Millisecond)
}

// lockLeads locks leads in the order of their ids.
func (s *Store) lockLeads(ctx context.Context, tx bun.Tx, ids []int64, how string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.lockRows(ctx, tx.NewSelect().Model((*leadRow)(nil)).Where("leads_id IN (?)", bun.List(ids)).Order("leads_id"), how)
}

// lockLead reads a lead and locks it.
func (s *Store) lockLead(ctx context.Context, tx bun.Tx, sc waypost.Scope, id int64, how string) (row leadRow, err error) {
	err = s.lockFor(tx.NewSelect().Model(&row).Where("leads_id = ?", id), how).Scan(ctx)
	if err == nil && (row.Org != sc.Org || row.Stage != string(sc.Stage)) {
		err = sql.ErrNoRows
	}
	if err != nil {
		return leadRow{}, notFound(err, "leadsId", "there is no lead %d", id)
	}
	return row, nil
}

// updateLead writes a lead that is locked, and its numbers; errDuplicate if another
// lead has the externalId or one of them.
func updateLead(ctx context.Context, tx bun.Tx, before waypost.Lead, row leadRow, phones []string) error {
	// Looked for first, because PostgreSQL logs a statement that fails, with all that is in
	// it. What another lead takes at this very moment still fails.
	if row.ExternalID != nil && (before.ExternalID == nil || *before.ExternalID != *row.ExternalID) {
		if holder, err := externalIDHolder(ctx, tx, row); err != nil || holder > 0 {
			return cmp.Or(err, errDuplicate)
		}
	}
	_, err := tx.NewUpdate().Model(&row).ExcludeColumn("org", "stage", "created_at").WherePK().Exec(ctx)
	if isDuplicate(err) {
		return errDuplicate
	}
	if err != nil || phones == nil {
		return err
	}
	var had []string
	if err := tx.NewSelect().Model((*phoneRow)(nil)).Column("phone").Where("leads_id = ?", row.LeadsID).Scan(ctx, &had); err != nil {
		return err
	}
	// New ones first: what another lead has is seen without a wait, so that two that
	// want each other's numbers do not wait for each other.
	fresh := slices.DeleteFunc(slices.Clone(phones), func(phone string) bool { return slices.Contains(had, phone) })
	if err := addPhones(ctx, tx, row, fresh); err != nil {
		return err
	}
	gone := slices.DeleteFunc(had, func(phone string) bool { return slices.Contains(phones, phone) })
	if len(gone) == 0 {
		return nil
	}
	_, err = tx.NewDelete().Model((*phoneRow)(nil)).Where("org = ? AND stage = ? AND phone IN (?)", row.Org, row.Stage, bun.List(gone)).Exec(ctx)
	return err
}

// isDuplicate tells whether a unique key forbids a change.
func isDuplicate(err error) bool {
	var pg *pgconn.PgError
	var lite *sqlite.Error
	switch {
	case errors.As(err, &pg):
		return pg.Code == pgUnique
	case errors.As(err, &lite):
		return lite.Code() == sqliteUnique
	}
	return false
}

// DeleteLead deletes a lead with its numbers and events, and cancels its enrollments
// that have not ended, as CancelEnrollment does it, and its redeliveries. It erases the
// params of all its enrollments, and its messages with what was answered; of one whose
// attempt is under way that is done when the attempt has ended. Its leadsId is never used again.
// check (unless nil) sees the lead while nobody else can change it; its error ends
// the deletion and is returned. NotFound if the scope has none of this id.
func (s *Store) DeleteLead(ctx context.Context, sc waypost.Scope, id int64, check func(waypost.Lead) error) error {
	var refused error
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockLead(ctx, tx, sc, id, forDelete)
		if err != nil {
			return err
		}
		lead, err := row.lead()
		if err != nil {
			return err
		}
		if check != nil {
			if refused = check(lead); refused != nil {
				return refused
			}
		}
		// Deliveries before enrollments, as everybody locks them. Whoever records an attempt
		// has done so before, or sees that the lead is gone.
		if err := s.lockDeliveriesOfLead(ctx, tx, id); err != nil {
			return err
		}
		if err := s.cancelRoundsOfLead(ctx, tx, id); err != nil {
			return err
		}
		running, err := runningEnrollments(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			canceled, err := s.cancelEach(ctx, tx, running, s.time())
			if err != nil {
				return err
			}
			if err := s.notify(ctx, tx, noticesOf(canceled, true), false); err != nil {
				return err
			}
		}
		if err := eraseLead(ctx, tx, id); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model((*leadRow)(nil)).Where("leads_id = ?", id).Exec(ctx)
		return err
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("delete lead %d: %w", id, err)
	}
	return nil
}

// runningEnrollments lists a lead's enrollments that have not ended. They are found
// by the entries of its journeys: an index of enrollments by lead would cost every
// launch some percent of its speed.
func runningEnrollments(ctx context.Context, tx bun.Tx, sc waypost.Scope, lead int64) ([]string, error) {
	var entries []struct {
		JourneyID    string `bun:"journey_id"`
		EnrollmentID string `bun:"enrollment_id"`
		Active       int    `bun:"active"`
		Running      bool   `bun:"running"`
	}
	err := tx.NewRaw(`SELECT je.journey_id, je.enrollment_id, je.active, e.id IS NOT NULL AND e.ended_at IS NULL AS running
		FROM journeys AS j JOIN journey_entries AS je ON je.journey_id = j.id AND je.leads_id = ? LEFT JOIN enrollments AS e ON e.id = je.enrollment_id
		WHERE j.org = ? AND j.stage = ? AND je.active > 0`, lead, sc.Org, sc.Stage).Scan(ctx, &entries)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, entry := range entries {
		if entry.Active == 1 && entry.Running {
			ids = append(ids, entry.EnrollmentID)
			continue
		}
		// The journey lets a lead in several times at once: the entry names the last.
		var several []string
		err := tx.NewSelect().Model((*enrollmentRow)(nil)).Column("id").
			Where("journey_id = ? AND leads_id = ? AND ended_at IS NULL", entry.JourneyID, lead).Scan(ctx, &several)
		if err != nil {
			return nil, err
		}
		ids = append(ids, several...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// insertLead waits for a concurrent create of the same externalId or number to
// end (ON CONFLICT does that), so exactly one of two succeeds.
func insertLead(ctx context.Context, tx bun.Tx, row *leadRow, phones []string) error {
	row.LeadsID = 0
	err := tx.NewInsert().Model(row).On("CONFLICT (org, stage, external_id) DO NOTHING").Returning("leads_id").Scan(ctx, &row.LeadsID)
	if errors.Is(err, sql.ErrNoRows) {
		return errDuplicate
	}
	if err != nil {
		return err
	}
	return addPhones(ctx, tx, *row, phones)
}

// addPhones gives a lead more numbers; errDuplicate if another one has one of
// them.
func addPhones(ctx context.Context, tx bun.Tx, row leadRow, phones []string) error {
	if len(phones) == 0 {
		return nil
	}
	// In the order of the key, so that two creates never wait for each other.
	sorted := slices.Compact(slices.Sorted(slices.Values(phones)))
	rows := make([]phoneRow, len(sorted))
	for i, phone := range sorted {
		rows[i] = phoneRow{Org: row.Org, Stage: row.Stage, Phone: phone, LeadsID: row.LeadsID}
	}
	res, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || int(n) != len(rows) {
		return errors.Join(err, errDuplicate)
	}
	return nil
}

// duplicate returns the Conflict with all other leads that stand in row's way, nil
// if there is none (any more).
func (s *Store) duplicate(ctx context.Context, row leadRow, phones []string) error {
	var details []waypost.Detail
	add := func(target string, other int64) {
		details = append(details, waypost.Detail{
			Code: waypost.DetailDuplicate, Target: target, Message: fmt.Sprintf("lead %d has it already", other),
		})
	}
	target := "mobilePhone"
	other, err := externalIDHolder(ctx, s.r, row)
	if err != nil {
		return err
	}
	if other > 0 {
		target = "externalId"
		add(target, other)
	}
	var taken []phoneRow
	if len(phones) > 0 {
		err := s.r.NewSelect().Model(&taken).
			Where("org = ? AND stage = ? AND phone IN (?) AND leads_id <> ?", row.Org, row.Stage, bun.List(phones), row.LeadsID).Scan(ctx)
		if err != nil {
			return err
		}
	}
	for i, phone := range phones {
		for _, t := range taken {
			if t.Phone == phone {
				add(fmt.Sprintf("mobilePhone[%d]", i), t.LeadsID)
			}
		}
	}
	if len(details) == 0 {
		return nil
	}
	return &waypost.Error{Code: waypost.CodeConflict, Message: "there is such a lead already", Target: target, Details: details}
}

// externalIDHolder is the other lead that has the row's externalId, 0 if none has.
func externalIDHolder(ctx context.Context, db bun.IDB, row leadRow) (leadsID int64, err error) {
	if row.ExternalID == nil {
		return 0, nil
	}
	err = db.NewSelect().Model((*leadRow)(nil)).Column("leads_id").
		Where("org = ? AND stage = ? AND external_id = ? AND leads_id <> ?", row.Org, row.Stage, *row.ExternalID, row.LeadsID).Scan(ctx, &leadsID)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return leadsID, err
}

// leadQuery reads one lead: of all queries, clients ask this one most often.
const leadQuery = `SELECT leads_id, org, stage, leads_group, region, address, remark, name, mobile_phone, gender, birthday, email, wechat, qq,
	telephone, company, company_phone, company_email, company_website, external_id, open_id, custom_fields, created_at, updated_at
	FROM leads WHERE leads_id = $1`

// Lead returns a lead; NotFound if the scope has none of this id.
func (s *Store) Lead(ctx context.Context, sc waypost.Scope, id int64) (waypost.Lead, error) {
	rows, err := s.query(ctx, nil, leadQuery, id)
	if err != nil {
		return waypost.Lead{}, fmt.Errorf("load lead: %w", err)
	}
	defer rows.Close()
	var found []leadRow
	if err := s.r.ScanRows(ctx, rows, &found); err != nil {
		return waypost.Lead{}, fmt.Errorf("load lead: %w", err)
	}
	if len(found) == 0 || found[0].Org != sc.Org || found[0].Stage != string(sc.Stage) {
		return waypost.Lead{}, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", id)
	}
	lead, err := found[0].lead()
	if err != nil {
		return waypost.Lead{}, fmt.Errorf("load lead %d: %w", id, err)
	}
	return lead, nil
}

// LeadsByID returns the leads of these ids; those that the scope does not have
// are missing in the answer.
func (s *Store) LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error) {
	leads := make(map[int64]waypost.Lead, len(ids))
	if len(ids) == 0 {
		return leads, nil
	}
	rows, err := rowsByID[leadRow](ctx, s, "leads_id", ids)
	if err != nil {
		return nil, fmt.Errorf("load leads: %w", err)
	}
	for _, row := range rows {
		if row.Org != sc.Org || row.Stage != string(sc.Stage) {
			continue
		}
		lead, err := row.lead()
		if err != nil {
			return nil, fmt.Errorf("load lead %d: %w", row.LeadsID, err)
		}
		leads[lead.LeadsID] = lead
	}
	return leads, nil
}
