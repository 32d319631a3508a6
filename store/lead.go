package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"modernc.org/sqlite"

	"waypost"
)

type leadRow struct {
	bun.BaseModel `bun:"table:leads,alias:l"`

	LeadsID int64 `bun:"leads_id,pk,autoincrement"`
	waypost.Scope
	LeadsGroup     *int64  `bun:"leads_group"`
	Region         *int64  `bun:"region"`
	Address        *string `bun:"address"`
	Remark         *string `bun:"remark"`
	Name           string  `bun:"name"`
	NameFolded     string  `bun:"name_folded"` // for lists, as waypost.FoldText has it
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
	Consents       *string `bun:"consents"`
	Test           bool    `bun:"test"`
	CreatedAt      stamp   `bun:"created_at"`
	UpdatedAt      stamp   `bun:"updated_at"`
}

func (r leadRow) scope() waypost.Scope { return r.Scope }

func (r leadRow) lead() (waypost.Lead, error) {
	lead := waypost.Lead{
		LeadsID: r.LeadsID, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time,
		LeadFields: waypost.LeadFields{
			LeadsGroup: r.LeadsGroup, Region: r.Region, Address: r.Address, Remark: r.Remark, Name: r.Name,
			Gender: r.Gender, Birthday: r.Birthday, Email: r.Email, Wechat: r.Wechat, QQ: r.QQ,
			Telephone: r.Telephone, Company: r.Company, CompanyPhone: r.CompanyPhone, CompanyEmail: r.CompanyEmail,
			CompanyWebsite: r.CompanyWebsite, ExternalID: r.ExternalID, OpenID: r.OpenID, Test: r.Test,
		},
	}
	if err := errors.Join(fromJSON(r.MobilePhone, &lead.MobilePhone), fromJSON(text(r.CustomFields), &lead.CustomFields), fromJSON(text(r.Consents), &lead.Consents)); err != nil {
		return lead, fmt.Errorf("lead %d: %w", r.LeadsID, err)
	}
	return lead, nil
}

// newLeadRow is the row of fields that have been validated. BadRequest if a text holds what the database
// cannot store.
func newLeadRow(sc waypost.Scope, f waypost.LeadFields) (leadRow, error) {
	row := leadRow{
		Scope: sc, LeadsGroup: f.LeadsGroup, Region: f.Region, Address: f.Address, Remark: f.Remark, Name: f.Name,
		Gender: f.Gender, Birthday: f.Birthday, Email: f.Email, Wechat: f.Wechat, QQ: f.QQ,
		Telephone: f.Telephone, Company: f.Company, CompanyPhone: f.CompanyPhone, CompanyEmail: f.CompanyEmail,
		CompanyWebsite: f.CompanyWebsite, ExternalID: f.ExternalID, OpenID: f.OpenID, Test: f.Test,
	}
	if row.ExternalID != nil && *row.ExternalID == "" {
		row.ExternalID = nil // an empty one identifies nobody
	}
	row.NameFolded = waypost.FoldText(row.Name)
	if row.Email != nil {
		row.EmailFolded = new(waypost.FoldText(*row.Email))
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
	if f.Consents != nil {
		consents, err := toJSON(f.Consents)
		if err != nil {
			return row, err
		}
		row.Consents = &consents
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
	for name, value := range f.CustomFields {
		text, _ := value.(string)
		checkText(&p, "customFields", name+text) // PostgreSQL's index reads it
	}
	return row, p.Err("businessParam")
}

type phoneRow struct {
	bun.BaseModel `bun:"table:lead_phones,alias:p"`

	Org     string        `bun:"org,pk"`
	Stage   waypost.Stage `bun:"stage,pk"`
	Phone   string        `bun:"phone,pk"`
	LeadsID int64         `bun:"leads_id"`
}

// errDuplicate ends the transaction of a lead that another one stands in the
// way of.
var errDuplicate = errors.New("duplicate lead")

// CreateLead stores a new lead. phones are its mobile numbers in E.164, in the
// order of f.MobilePhone. A lead of the same organisation and stage with the same
// externalId or one of the numbers is a Conflict (docs/contract.md, "Lead validation"): target
// "externalId" or "mobilePhone", a detail Duplicate for each ("mobilePhone[1]")
// whose message holds the other's leadsId.
func (s *leadChanges) CreateLead(
	ctx context.Context, by waypost.Caller, f waypost.LeadFields, phones []string,
) (lead waypost.Lead, err error) {
	defer wrap(&err, "create lead")
	sc, author := by.Within()
	row, err := newLeadRow(sc, f)
	if err != nil {
		return lead, err
	}
	now := s.time()
	row.CreatedAt, row.UpdatedAt = stamp{now}, stamp{now}
	err = s.storeUnique(ctx, func() (leadRow, []string, error) {
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			if lead, err = s.createLead(ctx, tx, &row, phones, author, false); err != nil {
				return err
			}
			return s.idempotency.keepResult(ctx, tx, lead)
		})
		row.LeadsID = 0 // nobody's, if there was an error
		return row, phones, err
	})
	return lead, err
}

// createLead stores a lead that has its times, with all that follows from it; errDuplicate if another
// one has its externalId or one of its numbers. Those in bulk are many.
func (s *leadChanges) createLead(
	ctx context.Context, tx bun.Tx, row *leadRow, phones []string, author *waypost.Author, bulk bool,
) (lead waypost.Lead, err error) {
	if err := insertLead(ctx, tx, row, phones); err != nil {
		return lead, err
	}
	if lead, err = row.lead(); err != nil {
		return lead, err
	}
	if lead.Began, err = s.entries.beginByLeads(ctx, tx, row.Scope, author.App(), []leadChange{{nil, row}}, 0, bulk); err != nil {
		return lead, err
	}
	return lead, s.audit.auditLead(ctx, tx, author, "lead.create", lead.LeadsID, nil, &lead.LeadFields)
}

// storeUnique calls store, which returns what it stores, or errDuplicate with it. If another
// lead is in the way then, it returns the Conflict; one that was deleted meanwhile is not.
func (s *leadChanges) storeUnique(ctx context.Context, store func() (row leadRow, phones []string, err error)) error {
	for range maxTries {
		row, phones, err := store()
		if !errors.Is(err, errDuplicate) {
			return err
		}
		if err := s.leads.duplicate(ctx, row, phones); err != nil {
			return err
		}
	}
	return errors.New("duplicates come and go")
}

// UpdateLead replaces the fields of a lead. change sees it as it is, while nobody else can
// change it, and returns its new fields and mobile numbers (as CreateLead takes them; nil
// leaves them as they are); it may run again and must not keep anything. An error of
// change ends the update and is returned. updatedAt moves on by a millisecond at least.
// NotFound if the scope has none of this id; what another lead has is a Conflict, as
// CreateLead reports it.
func (s *leadChanges) UpdateLead(
	ctx context.Context, by waypost.Caller, id int64, change func(waypost.Lead) (f waypost.LeadFields, phones []string, err error),
) (lead waypost.Lead, err error) {
	defer wrap(&err, "update lead %d", id)
	sc, author := by.Within()
	err = s.storeUnique(ctx, func() (row leadRow, phones []string, err error) {
		err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			row, phones, lead, err = s.changeLead(ctx, tx, sc, id, change, author, 0)
			return err
		})
		return row, phones, err
	})
	return lead, err
}

// changeLead replaces the fields of a lead, with all that follows from it; see UpdateLead.
func (s *leadChanges) changeLead(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, id int64, change func(waypost.Lead) (waypost.LeadFields, []string, error),
	author *waypost.Author, depth int,
) (row leadRow, phones []string, lead waypost.Lead, err error) {
	stored, err := s.leads.lockLead(ctx, tx, sc, id, forChange)
	if err != nil {
		return row, nil, lead, err
	}
	before, err := stored.lead()
	if err != nil {
		return row, nil, lead, err
	}
	f, phones, err := change(before)
	if err != nil {
		return row, phones, lead, err
	}
	if row, err = newLeadRow(sc, f); err != nil {
		return row, phones, lead, err
	}
	row.LeadsID, row.CreatedAt, row.UpdatedAt = id, stamp{before.CreatedAt}, stamp{later(s.time(), before.UpdatedAt)}
	if err := updateLead(ctx, tx, before, row, phones); err != nil {
		return row, phones, lead, err
	}
	changes := []leadChange{{&stored, &row}}
	if err := s.waits.tellFollowers(ctx, tx, changes, false); err != nil {
		return row, phones, lead, err
	}
	if lead, err = row.lead(); err != nil {
		return row, phones, lead, err
	}
	if lead.Began, err = s.entries.beginByLeads(ctx, tx, sc, author.App(), changes, depth, false); err != nil {
		return row, phones, lead, err
	}
	return row, phones, lead, s.audit.auditLead(ctx, tx, author, "lead.update", id, &before.LeadFields, &lead.LeadFields)
}

// later is now, or a moment after before if both are shown alike.
func later(now, before time.Time) time.Time {
	if now.Truncate(time.Millisecond).After(before.Truncate(time.Millisecond)) {
		return now
	}
	return before.Add(time.Millisecond)
}

// lockLeads locks leads in the order of their ids.
func (s *leads) lockLeads(ctx context.Context, tx bun.Tx, ids []int64, how string) error {
	if len(ids) == 0 {
		return nil
	}
	return s.lockRows(ctx, tx.NewSelect().Model((*leadRow)(nil)).Where("leads_id IN (?)", bun.List(ids)).Order("leads_id"), how)
}

// lockLead reads a lead and locks it.
func (s *leads) lockLead(ctx context.Context, tx bun.Tx, sc waypost.Scope, id int64, how string) (row leadRow, err error) {
	q := tx.NewSelect().Model(&row).Where("leads_id = ? AND org = ? AND stage = ?", id, sc.Org, sc.Stage)
	return row, notFound(s.lockFor(q, how).Scan(ctx), "leadsId", "there is no lead %d", id)
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
	added := slices.DeleteFunc(slices.Clone(phones), func(phone string) bool { return slices.Contains(had, phone) })
	if err := addPhones(ctx, tx, row, added); err != nil {
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

// DeleteLead deletes a lead with its numbers and events, and cancels its enrollments that
// have not ended, as CancelEnrollment does it, and its redeliveries. It erases the params
// of all its enrollments, and its messages with what was answered; while an attempt is
// under way its message stays until the attempt has ended. Its leadsId is never used
// again. check (unless nil) sees the lead while nobody else can change it; its error ends
// the deletion and is returned. NotFound if the scope has none of this id.
func (s *leadChanges) DeleteLead(ctx context.Context, by waypost.Caller, id int64, check func(waypost.Lead) error) error {
	_, err := s.EraseLead(ctx, by, id, check)
	return err
}

// EraseLead is DeleteLead, and tells what was erased and what is kept.
func (s *leadChanges) EraseLead(
	ctx context.Context, by waypost.Caller, id int64, check func(waypost.Lead) error,
) (erasure waypost.Erasure, err error) {
	defer wrap(&err, "delete lead %d", id)
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.leads.lockLead(ctx, tx, sc, id, forDelete)
		if err != nil {
			return err
		}
		lead, err := row.lead()
		if err != nil {
			return err
		}
		if check != nil {
			if err := check(lead); err != nil {
				return err
			}
		}
		// Deliveries before enrollments, as everybody locks them. Whoever records an attempt
		// has done so before, or sees that the lead is gone.
		if err := s.lockDeliveriesOfLead(ctx, tx, id); err != nil {
			return err
		}
		if err := s.rounds.cancelRoundsOfLead(ctx, tx, id); err != nil {
			return err
		}
		running, err := runningEnrollments(ctx, tx, id)
		if err != nil {
			return err
		}
		if len(running) > 0 {
			canceled, err := s.controls.cancelEach(ctx, tx, running, s.time())
			if err != nil {
				return err
			}
			if err := s.notices.notify(ctx, tx, noticesOf(canceled, true), false); err != nil {
				return err
			}
		}
		erasure = waypost.Erasure{LeadsID: id}
		erasure.Erased.Canceled = len(running)
		if err := s.eraseLead(ctx, tx, sc, &erasure); err != nil {
			return err
		}
		if err := s.countKept(ctx, tx, row, &erasure); err != nil {
			return err
		}
		if err := s.segmentChecks.dropChecks(ctx, tx, id); err != nil {
			return err
		}
		if _, err := tx.NewDelete().Model((*memberRow)(nil)).Where("leads_id = ?", id).Exec(ctx); err != nil {
			return err
		}
		if _, err = tx.NewDelete().Model((*leadRow)(nil)).Where("leads_id = ?", id).Exec(ctx); err != nil {
			return err
		}
		return s.audit.auditLead(ctx, tx, author, "lead.delete", id, &lead.LeadFields, nil)
	})
	if err == nil {
		s.emptyLog(ctx)
	}
	return erasure, err
}

// countKept counts what stays of a lead that is deleted.
func (s *leadChanges) countKept(ctx context.Context, tx bun.Tx, row leadRow, e *waypost.Erasure) (err error) {
	if e.Kept.Enrollments, err = tx.NewSelect().Model((*enrollmentRow)(nil)).Where("leads_id = ?", e.LeadsID).Count(ctx); err != nil {
		return err
	}
	e.Kept.Suppressions, err = tx.NewSelect().Model((*suppressionRow)(nil)).Where("s.org = ? AND s.stage = ?", row.Org, row.Stage).
		WhereGroup(" AND ", func(q *bun.SelectQuery) *bun.SelectQuery {
			return q.Where("s.mobile_phone IN (SELECT phone FROM lead_phones WHERE leads_id = ?)", e.LeadsID).
				WhereOr("s.email_folded = ?", row.EmailFolded).WhereOr("s.external_id = ?", row.ExternalID)
		}).Count(ctx)
	if err != nil {
		return err
	}
	e.Kept.Messages, err = tx.NewSelect().TableExpr("messages AS m").Join("JOIN deliveries AS d ON d.enrollment_id = m.enrollment_id AND d.visit = m.visit").
		Where("d.leads_id = ?", e.LeadsID).Count(ctx)
	if err != nil {
		return err
	}
	e.Kept.Imports, err = tx.NewSelect().TableExpr("imports AS i").Where("i.org = ? AND i.stage = ? AND i.ended_at IS NULL", row.Org, row.Stage).
		Where("EXISTS (SELECT 1 FROM import_parts AS ip WHERE ip.import_id = i.id)").Count(ctx)
	return err
}

// runningEnrollments lists a lead's enrollments that have not ended.
func runningEnrollments(ctx context.Context, tx bun.Tx, lead int64) (ids []string, err error) {
	err = tx.NewSelect().Model((*enrollmentRow)(nil)).Column("id").Where("leads_id = ? AND ended_at IS NULL", lead).Order("id").Scan(ctx, &ids)
	return ids, err
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
	rows := mapped(distinct(phones), func(phone string) phoneRow {
		return phoneRow{Org: row.Org, Stage: row.Stage, Phone: phone, LeadsID: row.LeadsID}
	})
	n, err := affected(tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	if err == nil && n != len(rows) {
		err = errDuplicate
	}
	return err
}

// duplicate returns the Conflict with all other leads that stand in row's way, nil
// if there is none (any more).
func (s *leads) duplicate(ctx context.Context, row leadRow, phones []string) error {
	var details []waypost.Detail
	add := func(target string, other int64) {
		details = append(details, waypost.Detail{Target: target, Message: fmt.Sprintf("lead %d has it already", other)})
	}
	other, err := externalIDHolder(ctx, s.r, row)
	if err != nil {
		return err
	}
	if other > 0 {
		add("externalId", other)
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
	return duplicateLead(details)
}

// duplicateLead is the Conflict with the leads that details tell of, the one of the externalId
// first; nil if there are none.
func duplicateLead(details []waypost.Detail) error {
	if len(details) == 0 {
		return nil
	}
	for i := range details {
		details[i].Code = waypost.DetailDuplicate
	}
	target, _, _ := strings.Cut(details[0].Target, "[")
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

// Lead returns a lead; NotFound if the scope has none of this id.
func (s *leads) Lead(ctx context.Context, sc waypost.Scope, id int64) (lead waypost.Lead, err error) {
	defer wrap(&err, "load lead %d", id)
	row, err := rowByID[leadRow](ctx, s.db, sc, "leads_id", id)
	if err != nil {
		return lead, notFound(err, "leadsId", "there is no lead %d", id)
	}
	return row.lead()
}

// LeadsByID returns the leads of these ids; those that the scope does not have
// are missing in the answer.
func (s *leads) LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (_ map[int64]waypost.Lead, err error) {
	defer wrap(&err, "load leads")
	rows, err := rowsByID[leadRow](ctx, s.db, "leads_id", ids)
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r leadRow) bool { return r.Scope != sc })
	leads, err := decoded(rows, leadRow.lead)
	return keyed(leads, idOfLead), err
}

// leadsIn is LeadsByID by a transaction, of leads that are known to be of the scope.
func leadsIn(ctx context.Context, tx bun.Tx, ids []int64) (map[int64]waypost.Lead, error) {
	var rows []leadRow
	if err := tx.NewSelect().Model(&rows).Where("leads_id IN (?)", bun.List(distinct(ids))).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read leads: %w", err)
	}
	leads, err := decoded(rows, leadRow.lead)
	return keyed(leads, idOfLead), err
}

func idOfLead(l waypost.Lead) int64 { return l.LeadsID }
