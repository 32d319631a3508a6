package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// importLine is a row that was read and checked as far as that needs no lead.
type importLine struct {
	waypost.LeadRow
	line   int
	region string
	now    time.Time
	fault  *waypost.Error // the row fails whatever there is

	phones  []string // its mobile numbers in E.164
	numbers bool     // they are in order

	fields  waypost.LeadFields // as a new lead
	invalid error              // why they cannot be one
}

// readLines reads rows on all processors: that takes longer than writing them.
func readLines(im importRow, rows []waypost.ImportRow, now time.Time) ([]importLine, error) {
	lines := make([]importLine, len(rows))
	errs := make([]error, len(rows))
	var wg sync.WaitGroup
	share := max(1, (len(rows)+runtime.GOMAXPROCS(0)-1)/runtime.GOMAXPROCS(0))
	for from := 0; from < len(rows); from += share {
		wg.Go(func() {
			for i := from; i < min(from+share, len(rows)); i++ {
				lines[i] = importLine{line: rows[i].Line, region: im.PhoneRegion, now: now}
				errs[i] = lines[i].read(im.Mode, rows[i])
			}
		})
	}
	wg.Wait()
	return lines, errors.Join(errs...)
}

const businessParam = "businessParam"

// read sets all that can be said of a row without the database: its fields, its phone numbers, and in fault
// or invalid what is wrong with it.
func (l *importLine) read(mode waypost.ImportMode, row waypost.ImportRow) error {
	if row.Fault != nil {
		l.fault = row.Fault
		return nil
	}
	var problems waypost.Problems
	l.LeadRow, problems = waypost.ReadLeadRow(row.Data)
	// The numbers alone: they take most of the time and are needed in any case.
	numbers := waypost.LeadFields{Name: "-", MobilePhone: l.Fields.MobilePhone}
	var err error
	l.phones, err = numbers.Validate(l.region, l.now)
	l.numbers = err == nil
	if mode != waypost.ImportUpdate {
		l.fields = l.Apply(waypost.LeadFields{})
		l.invalid = l.check(&l.fields)
	}
	if len(problems) == 0 {
		return nil
	}
	target := businessParam
	if p := &problems[0]; p.Target == "" && len(problems) == 1 { // no member is at fault
		target = ""
		p.Message = strings.Replace(p.Message, "the body", "the row", 1)
	}
	var invalid *waypost.Error
	if mode == waypost.ImportCreate && target != "" && errors.As(l.invalid, &invalid) && invalid.Code == waypost.CodeBadRequest {
		problems = append(problems, notNamed(invalid.Details, problems)...)
	}
	if !errors.As(problems.Err(target), &l.fault) {
		return errors.New("problems that are no error")
	}
	return nil
}

// notNamed drops the details about fields that problems name already: a name of the
// wrong type is not also missing.
func notNamed(details []waypost.Detail, problems waypost.Problems) []waypost.Detail {
	return slices.DeleteFunc(slices.Clone(details), func(d waypost.Detail) bool {
		return slices.ContainsFunc(problems, func(p waypost.Detail) bool { return p.Target == d.Target })
	})
}

// check checks what the row makes of a lead. Numbers that were checked, or that the
// lead had before, are not checked again.
func (l *importLine) check(f *waypost.LeadFields) error {
	phones := f.MobilePhone
	if l.numbers {
		f.MobilePhone = nil
	}
	_, err := f.Validate(l.region, l.now)
	f.MobilePhone = phones
	return err
}

// batchLead is a lead that the rows of a batch change, make, or meet.
type batchLead struct {
	id     int64 // 0 of a new one, until all rows are decided
	line   int   // of the row that makes it
	fields waypost.LeadFields
	phones []string
	row    leadRow // fields as they are to be stored
	stored *leadRow
	owned  []string // the stored lead's numbers
	held   bool     // the lead is locked, or new
	dirty  bool
}

func (l *batchLead) name() string {
	if l.id == 0 { // a dry run
		return fmt.Sprintf("the row of line %d", l.line)
	}
	return fmt.Sprintf("lead %d", l.id)
}

// failure is a row that failed. Of a Conflict, holders are the leads that its
// details name: their ids may come later.
type failure struct {
	line    int
	err     *waypost.Error
	holders []*batchLead
}

// importBatch decides upon rows in their order and in memory, then writes all of it
// at once. Leads that rows name are locked. Numbers and externalIds of others are
// not: if one is taken before it is written, the unique constraints tell, and
// everything begins again (errStale).
type importBatch struct {
	s   *imports
	tx  bun.Tx
	im  importRow
	now time.Time

	leads    map[int64]*batchLead
	external map[string]*batchLead
	phone    map[string]*batchLead
	email    map[string][]*batchLead // by email_folded, where rows name leads so
	inserts  []*batchLead            // leads that rows make, in the order of their rows

	created, updated int
	failures         []failure
}

func newImportBatch(s *imports, tx bun.Tx, im importRow, now time.Time) *importBatch {
	return &importBatch{
		s: s, tx: tx, im: im, now: now,
		leads: map[int64]*batchLead{}, external: map[string]*batchLead{}, phone: map[string]*batchLead{}, email: map[string][]*batchLead{},
	}
}

// process decides upon rows and writes what becomes of them. A lead that a second row changes
// is written before that: each change of a lead is told, wherever a part ends. A dry run,
// which writes nothing, goes on in memory.
func (b *importBatch) process(ctx context.Context, lines []importLine) error {
	for {
		done, err := b.processSome(ctx, lines)
		if err != nil || done == len(lines) {
			return err
		}
		lines = lines[done:]
		next := newImportBatch(b.s, b.tx, b.im, b.now)
		next.created, next.updated, next.failures = b.created, b.updated, b.failures
		*b = *next
	}
}

// processSome does it up to a row that changes a lead again, and returns how many rows that were.
func (b *importBatch) processSome(ctx context.Context, lines []importLine) (done int, err error) {
	if err := b.s.withoutPlan(ctx, b.tx, "sort"); err != nil {
		return 0, err
	}
	if b.im.Mode != waypost.ImportCreate {
		if err := b.lockLeads(ctx, lines); err != nil {
			return 0, fmt.Errorf("lock leads: %w", err)
		}
	}
	if err := b.findHolders(ctx, lines); err != nil {
		return 0, fmt.Errorf("find duplicates: %w", err)
	}
	for done < len(lines) {
		again, err := b.decide(&lines[done])
		if err != nil {
			return 0, err
		}
		if again {
			break
		}
		done++
	}
	if b.im.DryRun {
		return done, nil
	}
	if err := b.write(ctx); err != nil {
		if isDuplicate(err) {
			return 0, errStale
		}
		return 0, fmt.Errorf("write leads: %w", err)
	}
	return done, nil
}

// lockLeads locks and loads the leads that rows name, in the order of their ids.
func (b *importBatch) lockLeads(ctx context.Context, lines []importLine) error {
	ids, err := b.named(ctx, lines)
	if err != nil || len(ids) == 0 {
		return err
	}
	var rows []leadRow
	q := b.tx.NewSelect().Model(&rows).Order("leads_id").
		Where("leads_id IN (?) AND org = ? AND stage = ?", bun.List(distinct(ids)), b.im.Org, b.im.Stage)
	if err := b.s.lock(q, "l").Scan(ctx); err != nil || len(rows) == 0 {
		return err
	}
	for _, row := range rows {
		lead, err := row.lead()
		if err != nil {
			return err
		}
		l := &batchLead{id: row.LeadsID, fields: lead.LeadFields, row: row, stored: &row, held: true}
		b.leads[l.id] = l
		b.addEmail(l)
		if row.ExternalID != nil {
			b.external[*row.ExternalID] = l
		}
	}
	var phones []phoneRow
	if err := b.tx.NewSelect().Model(&phones).Where("leads_id IN (?)", bun.List(slices.Collect(maps.Keys(b.leads)))).Scan(ctx); err != nil {
		return err
	}
	for _, p := range phones {
		l := b.leads[p.LeadsID]
		l.owned = append(l.owned, p.Phone)
		b.phone[p.Phone] = l
	}
	for _, l := range b.leads {
		l.phones = l.owned
	}
	return nil
}

// named finds the leads that rows may name.
func (b *importBatch) named(ctx context.Context, lines []importLine) (ids []int64, err error) {
	byID := b.im.Match == "" || b.im.Match == waypost.MatchLeadsID
	q, keys := holdersByExternal, func(l *importLine) []string { return present(l.Fields.ExternalID) }
	switch b.im.Match {
	case waypost.MatchEmail:
		q, keys = holdersByEmail, func(l *importLine) []string { return present(foldedEmail(l)) }
	case waypost.MatchMobilePhone:
		q, keys = holdersByPhone, func(l *importLine) []string { return l.phones }
	case waypost.MatchLeadsID:
		keys = func(*importLine) []string { return nil }
	}
	var wanted []string
	for i := range lines {
		if l := &lines[i]; l.fault == nil {
			if wanted = append(wanted, keys(l)...); byID && l.LeadsID != nil {
				ids = append(ids, *l.LeadsID)
			}
		}
	}
	err = b.s.leads.eachHolder(ctx, b.tx, q, b.im.Scope, wanted, func(_ string, id int64) { ids = append(ids, id) })
	return ids, err
}

// present is a text as a list, which is empty for none.
func present(text *string) []string {
	if text == nil || *text == "" {
		return nil
	}
	return []string{*text}
}

// foldedEmail is the e-mail address of a row as leads are found by it.
func foldedEmail(l *importLine) *string {
	if l.Fields.Email == nil {
		return nil
	}
	folded := waypost.FoldText(cleanText(*l.Fields.Email))
	return &folded
}

// addEmail has a lead found by its e-mail address, and dropEmail no longer.
func (b *importBatch) addEmail(l *batchLead) {
	if key := text(l.row.EmailFolded); key != "" {
		b.email[key] = append(b.email[key], l)
	}
}

func (b *importBatch) dropEmail(l *batchLead) {
	key := text(l.row.EmailFolded)
	b.email[key] = slices.DeleteFunc(b.email[key], func(other *batchLead) bool { return other == l })
}

// findHolders finds the leads that have an externalId or number of the rows.
func (b *importBatch) findHolders(ctx context.Context, lines []importLine) error {
	var externals, phones []string
	for _, l := range lines {
		if l.fault != nil {
			continue
		}
		if e := l.Fields.ExternalID; e != nil && b.external[*e] == nil {
			externals = append(externals, *e)
		}
		for _, p := range l.phones {
			if b.phone[p] == nil {
				phones = append(phones, p)
			}
		}
	}
	err := b.s.leads.eachHolder(ctx, b.tx, holdersByExternal, b.im.Scope, externals, func(key string, id int64) { b.external[key] = b.holder(id) })
	if err != nil {
		return err
	}
	return b.s.leads.eachHolder(ctx, b.tx, holdersByPhone, b.im.Scope, phones, func(key string, id int64) { b.phone[key] = b.holder(id) })
}

func (b *importBatch) holder(id int64) *batchLead {
	if l := b.leads[id]; l != nil {
		return l
	}
	return &batchLead{id: id}
}

// Texts that look up many keys one by one. All indexes of leads begin with org and
// stage, and where PostgreSQL has no statistics of an organisation, or old ones, any
// of them seems as good: it may read all leads of the scope for every key. With an
// order that only one index has, and with sorting turned off (see process), it takes
// that one.
var (
	holdersByExternal = dialects{
		postgres: "SELECT k.key, h.leads_id FROM unnest($3::text[]) AS k (key) CROSS JOIN LATERAL (SELECT leads_id FROM leads " +
			"WHERE org = $1 AND stage = $2 AND external_id >= k.key AND external_id <= k.key ORDER BY external_id LIMIT 1) AS h",
		sqlite: "SELECT k.value, h.leads_id FROM json_each(?3) AS k CROSS JOIN leads AS h WHERE h.org = ?1 AND h.stage = ?2 AND h.external_id = k.value",
	}
	holdersByPhone = dialects{
		postgres: "SELECT k.key, h.leads_id FROM unnest($3::text[]) AS k (key) CROSS JOIN LATERAL (SELECT leads_id FROM lead_phones " +
			"WHERE org = $1 AND stage = $2 AND phone = k.key OFFSET 0) AS h",
		sqlite: "SELECT k.value, h.leads_id FROM json_each(?3) AS k CROSS JOIN lead_phones AS h WHERE h.org = ?1 AND h.stage = ?2 AND h.phone = k.value",
	}
)

// eachHolder calls found for each key that a lead of the scope has.
func (s *leads) eachHolder(
	ctx context.Context, tx bun.Tx, q dialects, sc waypost.Scope, keys []string, found func(key string, id int64),
) error {
	if len(keys) == 0 {
		return nil
	}
	list, err := s.list(keys)
	if err != nil {
		return err
	}
	rows, err := s.query(ctx, &tx, s.in(q), sc.Org, string(sc.Stage), list)
	if err != nil {
		return err
	}
	return scanAll(rows, func(rows *sql.Rows) error {
		var key string
		var id int64
		err := rows.Scan(&key, &id)
		found(key, id)
		return err
	})
}

// decide works one row into the leads as the rows before it left them, unless it changes a
// lead again that is to be written before. An error is no fault of the row.
func (b *importBatch) decide(l *importLine) (again bool, err error) {
	target, err := b.target(l)
	if err == nil && target != nil {
		if !target.held {
			return false, errStale // it came after those that rows name were locked
		}
		if target.dirty && !b.im.DryRun {
			return true, nil
		}
	}
	fields, phones := l.fields, l.phones
	switch {
	case err != nil:
	case target == nil:
		err = l.invalid
	default:
		fields = l.Apply(target.fields)
		if !l.Writes("mobilePhone") {
			phones = target.phones
		}
		err = l.check(&fields)
	}
	var row leadRow
	if err == nil {
		row, err = newLeadRow(b.im.Scope, fields)
	}
	var holders []*batchLead
	if err == nil {
		holders, err = b.conflict(target, row.ExternalID, phones)
	}
	if err != nil {
		var fault *waypost.Error
		if !errors.As(err, &fault) {
			return false, err
		}
		b.failures = append(b.failures, failure{l.line, fault, holders})
		return false, nil
	}
	if target == nil {
		target = &batchLead{line: l.line, held: true}
		b.inserts = append(b.inserts, target)
		b.created++
	} else {
		b.updated++
	}
	b.put(target, fields, row, phones)
	return false, nil
}

// target finds the lead that a row means, nil for one that is to be made.
func (b *importBatch) target(l *importLine) (*batchLead, error) {
	switch {
	case l.fault != nil:
		return nil, l.fault
	case b.im.Mode == waypost.ImportCreate:
		return nil, nil
	}
	if l.LeadsID != nil && (b.im.Match == "" || b.im.Match == waypost.MatchLeadsID) {
		if lead := b.leads[*l.LeadsID]; lead != nil {
			return lead, nil
		}
	}
	target, found := b.im.Match, []*batchLead(nil)
	switch target {
	case waypost.MatchEmail:
		found = b.email[text(foldedEmail(l))]
	case waypost.MatchMobilePhone:
		for _, p := range l.phones {
			if lead := b.phone[p]; lead != nil && !slices.Contains(found, lead) {
				found = append(found, lead)
			}
		}
	case waypost.MatchLeadsID:
	default:
		if l.LeadsID != nil && b.im.Match == "" && b.im.Mode == waypost.ImportUpdate {
			target = waypost.MatchLeadsID
		} else if lead := b.external[text(l.Fields.ExternalID)]; lead != nil {
			found = append(found, lead)
		}
	}
	switch {
	case len(found) > 1:
		return nil, &waypost.Error{
			Code: waypost.CodeConflict, Target: string(target), Message: "several leads have this " + string(target),
			Details: []waypost.Detail{{Code: waypost.DetailAmbiguous, Target: string(target), Message: "several leads have it; name the one that is meant by its leadsId or externalId"}},
		}
	case len(found) == 1:
		return found[0], nil
	case b.im.Mode == waypost.ImportUpsert:
		return nil, nil
	}
	return nil, b.nobody(l, target)
}

// nobody is why a row of an update names no lead.
func (b *importBatch) nobody(l *importLine, by waypost.ImportMatch) error {
	given, missing := false, "is missing"
	switch by {
	case waypost.MatchLeadsID:
		if l.LeadsID != nil {
			return waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", *l.LeadsID)
		}
	case waypost.MatchEmail:
		given = strings.TrimSpace(text(l.Fields.Email)) != ""
	case waypost.MatchMobilePhone:
		given = len(l.Fields.MobilePhone) > 0
	default:
		given = strings.TrimSpace(text(l.Fields.ExternalID)) != ""
		if by == "" && !given {
			by, missing = waypost.MatchLeadsID, "is missing, and so is externalId"
		} else {
			by = waypost.MatchExternalID
		}
	}
	if given {
		return waypost.Errorf(waypost.CodeNotFound, string(by), "there is no lead of this %s", by)
	}
	return &waypost.Error{
		Code: waypost.CodeBadRequest, Target: businessParam, Message: string(by) + ": " + missing,
		Details: []waypost.Detail{{Code: waypost.DetailNullValue, Target: string(by), Message: missing}},
	}
}

// conflict is the Conflict of a lead with others that have its externalId or its
// numbers, and those others, one for each detail.
func (b *importBatch) conflict(lead *batchLead, external *string, phones []string) (holders []*batchLead, err error) {
	var details []waypost.Detail
	if external != nil {
		if other := b.external[*external]; other != nil && other != lead {
			holders, details = append(holders, other), append(details, waypost.Detail{Target: "externalId"})
		}
	}
	for i, p := range phones {
		if other := b.phone[p]; other != nil && other != lead {
			holders, details = append(holders, other), append(details, waypost.Detail{Target: fmt.Sprintf("mobilePhone[%d]", i)})
		}
	}
	return holders, duplicateLead(details)
}

// put gives a lead its fields, externalId and numbers, and frees those it had.
func (b *importBatch) put(l *batchLead, fields waypost.LeadFields, row leadRow, phones []string) {
	if old := l.row.ExternalID; old != nil {
		delete(b.external, *old)
	}
	for _, p := range l.phones {
		delete(b.phone, p)
	}
	b.dropEmail(l)
	l.fields, l.row, l.phones, l.dirty = fields, row, phones, true
	b.addEmail(l)
	if row.ExternalID != nil {
		b.external[*row.ExternalID] = l
	}
	for _, p := range phones {
		b.phone[p] = l
	}
}

// errors returns the rows that failed, in their order.
func (b *importBatch) errors() []waypost.ImportError {
	list := make([]waypost.ImportError, len(b.failures))
	for i, f := range b.failures {
		for d, holder := range f.holders {
			f.err.Details[d].Message = holder.name() + " has it already"
		}
		list[i] = waypost.ImportError{Line: f.line, Error: f.err}
	}
	return list
}

// write stores the leads as they are now. Everything is written in the order of its
// key: leads by their externalIds, then the numbers, those that are freed last. So
// imports and creates at the same time do not wait for each other in a circle.
func (b *importBatch) write(ctx context.Context) error {
	var changed []*batchLead
	var unnamed []int64
	for _, l := range b.leads {
		if !l.dirty {
			continue
		}
		changed = append(changed, l)
		l.row.LeadsID, l.row.CreatedAt, l.row.UpdatedAt = l.id, l.stored.CreatedAt, stamp{later(b.now, l.stored.UpdatedAt.Time)}
		if old := l.stored.ExternalID; old != nil && text(l.row.ExternalID) != *old {
			unnamed = append(unnamed, l.id)
		}
	}
	slices.SortFunc(changed, func(x, y *batchLead) int { return cmp.Compare(x.id, y.id) })
	if err := b.number(ctx); err != nil {
		return err
	}
	for _, l := range b.inserts {
		l.row.LeadsID, l.row.CreatedAt, l.row.UpdatedAt = l.id, stamp{b.now}, stamp{b.now}
	}
	if err := b.update(ctx, changed, unnamed); err != nil {
		return err
	}
	if err := b.insert(ctx); err != nil {
		return err
	}
	if err := b.writePhones(ctx, changed); err != nil {
		return err
	}
	if err := b.note(ctx, changed); err != nil {
		return fmt.Errorf("note which leads the import has written: %w", err)
	}
	changes := mapped(changed, func(l *batchLead) leadChange { return leadChange{l.stored, &l.row} })
	if err := b.s.waits.tellFollowers(ctx, b.tx, changes, true); err != nil {
		return err
	}
	for _, l := range b.inserts {
		changes = append(changes, leadChange{nil, &l.row})
	}
	_, err := b.s.entries.beginByLeads(ctx, b.tx, b.im.Scope, b.im.AppID, changes, 0, true)
	return err
}

// note stores which leads the import has created or updated.
func (b *importBatch) note(ctx context.Context, changed []*batchLead) error {
	leads := slices.Concat(changed, b.inserts)
	return insertImportLeads.run(ctx, b.s.db, b.tx, len(leads), func(i int) []any { return []any{b.im.ID, leads[i].id} }, nil)
}

// number gives new leads their ids, in the order of their rows.
func (b *importBatch) number(ctx context.Context) error {
	if len(b.inserts) == 0 {
		return nil
	}
	ids, err := b.s.nextNumbers(ctx, b.tx, "leads", "leads_id", len(b.inserts))
	if err != nil {
		return err
	}
	for i, l := range b.inserts {
		l.id = ids[i]
	}
	return nil
}

// leadColumns are the columns of leads after leads_id; args gives their values.
var leadColumns = []string{
	"leads_group bigint", "region bigint", "address text", "remark text", "name text", "name_folded text", "mobile_phone text", "gender bigint",
	"birthday text", "email text", "email_folded text", "wechat text", "qq text", "telephone text", "company text", "company_phone text",
	"company_email text", "company_website text", "external_id text", "open_id text", "custom_fields text", "consents text", "test boolean",
	"updated_at bigint",
}

func (r *leadRow) args(more ...any) []any {
	return append([]any{
		r.LeadsID, r.LeadsGroup, r.Region, r.Address, r.Remark, r.Name, r.NameFolded, r.MobilePhone, r.Gender,
		r.Birthday, r.Email, r.EmailFolded, r.Wechat, r.QQ, r.Telephone, r.Company, r.CompanyPhone,
		r.CompanyEmail, r.CompanyWebsite, r.ExternalID, r.OpenID, r.CustomFields, r.Consents, r.Test, r.UpdatedAt,
	}, more...)
}

var (
	insertLeads = bulk{
		table:   "leads",
		columns: slices.Concat([]string{"leads_id bigint"}, leadColumns, []string{"created_at bigint", "org text", "stage text"}),
		suffix:  "ON CONFLICT DO NOTHING",
		unique:  1,
	}
	updateLeads = bulk{
		table:   "leads AS l",
		columns: slices.Concat([]string{"leads_id bigint"}, leadColumns),
		keys:    1,
	}
	insertPhones = bulk{
		table:   "lead_phones",
		columns: []string{"org text", "stage text", "phone text", "leads_id bigint"},
		suffix:  "ON CONFLICT DO NOTHING",
		unique:  3,
	}
	movePhones = bulk{
		table:   "lead_phones AS p",
		columns: insertPhones.columns,
		keys:    3,
	}
)

// update writes leads that were there. An externalId that changes is cleared first:
// another lead of the batch may get it.
func (b *importBatch) update(ctx context.Context, changed []*batchLead, unnamed []int64) error {
	if len(unnamed) > 0 {
		_, err := b.tx.NewUpdate().Model((*leadRow)(nil)).Set("external_id = NULL").Where("leads_id IN (?)", bun.List(unnamed)).Exec(ctx)
		if err != nil {
			return err
		}
	}
	return updateLeads.run(ctx, b.s.db, b.tx, len(changed), func(i int) []any { return changed[i].row.args() }, nil)
}

// insert stores new leads; errStale if another has the externalId of one.
func (b *importBatch) insert(ctx context.Context) error {
	leads := slices.Clone(b.inserts)
	slices.SortStableFunc(leads, func(x, y *batchLead) int { return cmp.Compare(text(x.row.ExternalID), text(y.row.ExternalID)) })
	stored := 0
	err := insertLeads.apply(ctx, b.s.db, b.tx, len(leads), func(i int) []any {
		r := &leads[i].row
		return r.args(r.CreatedAt, r.Org, string(r.Stage))
	}, func(int) { stored++ })
	if err == nil && stored != len(leads) {
		err = errStale
	}
	return err
}

// writePhones stores the numbers of leads that were changed and of new ones;
// errStale if another lead has one of them.
func (b *importBatch) writePhones(ctx context.Context, changed []*batchLead) error {
	freed := map[string]bool{}
	for _, l := range changed {
		for _, p := range l.owned {
			freed[p] = b.phone[p] != l
		}
	}
	var added, moved, gone []phoneRow
	for _, list := range [][]*batchLead{changed, b.inserts} {
		for _, l := range list {
			for _, p := range l.phones {
				row := phoneRow{Org: b.im.Org, Stage: b.im.Stage, Phone: p, LeadsID: l.id}
				was, owned := freed[p]
				switch {
				case !owned:
					added = append(added, row)
				case was:
					moved = append(moved, row)
				}
			}
		}
	}
	for p, was := range freed {
		if was && b.phone[p] == nil {
			gone = append(gone, phoneRow{Org: b.im.Org, Stage: b.im.Stage, Phone: p})
		}
	}
	args := func(rows []phoneRow) rowArgs {
		slices.SortFunc(rows, func(x, y phoneRow) int { return cmp.Compare(x.Phone, y.Phone) })
		return func(i int) []any { return []any{rows[i].Org, string(rows[i].Stage), rows[i].Phone, rows[i].LeadsID} }
	}
	stored := 0
	if err := insertPhones.apply(ctx, b.s.db, b.tx, len(added), args(added), func(int) { stored++ }); err != nil {
		return err
	}
	if stored != len(added) {
		return errStale
	}
	if err := movePhones.run(ctx, b.s.db, b.tx, len(moved), args(moved), nil); err != nil {
		return err
	}
	if len(gone) == 0 {
		return nil
	}
	_, err := b.tx.NewDelete().Model(&gone).WherePK().Exec(ctx)
	return err
}
