package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

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
	MobilePhone    string  `bun:"mobile_phone"`
	Gender         *int64  `bun:"gender"`
	Birthday       *string `bun:"birthday"`
	Email          *string `bun:"email"`
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
// externalId or one of the numbers is a Conflict (contract, chapter 5): target
// "externalId" or "mobilePhone", a detail Duplicate for each ("mobilePhone[1]")
// whose message holds the other's leadsId.
func (s *Store) CreateLead(ctx context.Context, sc waypost.Scope, f waypost.LeadFields, phones []string) (waypost.Lead, error) {
	row, err := newLeadRow(sc, f)
	if err != nil {
		return waypost.Lead{}, err
	}
	now := s.time()
	row.CreatedAt, row.UpdatedAt = stamp{now}, stamp{now}
	for range maxTries {
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return insertLead(ctx, tx, &row, phones) })
		if err == nil {
			return row.lead()
		}
		if !errors.Is(err, errDuplicate) {
			return waypost.Lead{}, fmt.Errorf("create lead: %w", err)
		}
		if err := s.duplicate(ctx, row, phones); err != nil {
			return waypost.Lead{}, fmt.Errorf("create lead: %w", err)
		}
		// The other lead was deleted meanwhile: the way is free.
	}
	return waypost.Lead{}, errors.New("create lead: duplicates come and go")
}

// insertLead waits for a concurrent create of the same externalId or number to
// end (ON CONFLICT does that), so exactly one of two succeeds.
func insertLead(ctx context.Context, tx bun.Tx, row *leadRow, phones []string) error {
	row.LeadsID = 0
	err := tx.NewInsert().Model(row).On("CONFLICT (org, stage, external_id) DO NOTHING").Returning("leads_id").Scan(ctx, &row.LeadsID)
	if errors.Is(err, sql.ErrNoRows) {
		return errDuplicate
	}
	if err != nil || len(phones) == 0 {
		return err
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

// duplicate returns the Conflict with all leads that stand in row's way, nil if
// there is none (any more).
func (s *Store) duplicate(ctx context.Context, row leadRow, phones []string) error {
	var details []waypost.Detail
	add := func(target string, other int64) {
		details = append(details, waypost.Detail{
			Code: waypost.DetailDuplicate, Target: target, Message: fmt.Sprintf("lead %d has it already", other),
		})
	}
	target := "mobilePhone"
	if row.ExternalID != nil {
		var other int64
		err := s.r.NewSelect().Model((*leadRow)(nil)).Column("leads_id").
			Where("org = ? AND stage = ? AND external_id = ?", row.Org, row.Stage, *row.ExternalID).Scan(ctx, &other)
		switch {
		case err == nil:
			target = "externalId"
			add(target, other)
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
	}
	var taken []phoneRow
	if len(phones) > 0 {
		err := s.r.NewSelect().Model(&taken).Where("org = ? AND stage = ? AND phone IN (?)", row.Org, row.Stage, bun.List(phones)).Scan(ctx)
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

// Lead returns a lead; NotFound if the scope has none of this id.
func (s *Store) Lead(ctx context.Context, sc waypost.Scope, id int64) (waypost.Lead, error) {
	leads, err := s.LeadsByID(ctx, sc, []int64{id})
	if err != nil {
		return waypost.Lead{}, err
	}
	lead, ok := leads[id]
	if !ok {
		return lead, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", id)
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
	var rows []leadRow
	// The scope is compared here: as a condition it leads PostgreSQL, while it has no
	// statistics of the table, to read all leads of the scope.
	if err := s.r.NewSelect().Model(&rows).Where("leads_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
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
