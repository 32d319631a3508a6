package store

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"waypost"
	"waypost/delivery"
)

// briefingRow is an enrollment with its lead; either is empty if it is gone.
type briefingRow struct {
	enrollmentRow `bun:",extend"`
	Lead          leadRow `bun:"embed:lead_"`
	Controlled    bool    `bun:"controlled"`
	Suppressed    bool    `bun:"suppressed"`
	HookUpdatedAt stamp   `bun:"hook_updated_at"`
}

// Briefing reads what the first messages of a touchpoint need to know, in one statement.
func (s *attempts) Briefing(
	ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets,
) (b delivery.Briefing, err error) {
	defer wrap(&err, "load enrollments and leads")
	b.Enrollments = make(map[string]waypost.Enrollment, len(of.EnrollmentIDs))
	b.Leads = make(map[int64]waypost.Lead, len(of.EnrollmentIDs))
	rows, err := s.briefingRows(ctx, sc, webhookID, of)
	if err != nil {
		return b, err
	}
	for _, row := range rows {
		b.Controlled, b.WebhookUpdatedAt = row.Controlled, row.HookUpdatedAt.Time
		if row.ID == "" {
			continue
		}
		if b.Enrollments[row.ID], err = s.entries.withEvent(row.enrollmentRow); err != nil {
			return b, err
		}
		if row.Lead.Scope != sc {
			continue
		}
		if b.Leads[row.LeadsID], err = row.Lead.lead(); err != nil {
			return b, err
		}
		if row.Suppressed {
			if b.Suppressed == nil {
				b.Suppressed = map[int64]bool{}
			}
			b.Suppressed[row.LeadsID] = true
		}
	}
	return b, nil
}

func (s *attempts) briefingRows(
	ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets,
) (rows []briefingRow, err error) {
	if len(of.EnrollmentIDs) == 0 {
		return nil, nil
	}
	ids, err := s.list(of.EnrollmentIDs)
	if err != nil {
		return nil, err
	}
	found, err := s.query(ctx, nil, s.briefing, ids, of.JourneyID, of.LaunchID, slices.Min(of.EnrollmentIDs), slices.Max(of.EnrollmentIDs),
		webhookID, sc.Org, string(sc.Stage))
	if err != nil {
		return nil, err
	}
	err = s.r.ScanRows(ctx, found, &rows)
	return rows, err
}

// briefingText is the statement of Briefing. There is a row for what is true of all, even if
// there is none of them.
func (s *attempts) briefingText() string {
	columns := []string{
		"x.controlled", "x.hook_updated_at",
		"CASE WHEN x.suppressing IS NULL THEN FALSE ELSE " + isSuppressed("x.suppressing") + " END AS suppressed",
	}
	for _, f := range s.r.Table(reflect.TypeFor[enrollmentRow]()).Fields {
		columns = append(columns, "e."+f.Name)
	}
	for _, f := range s.r.Table(reflect.TypeFor[leadRow]()).Fields {
		columns = append(columns, "l."+f.Name+" AS lead_"+f.Name)
	}
	text := "SELECT " + strings.Join(columns, ", ") + `
		FROM (SELECT EXISTS (SELECT 1 FROM controls WHERE target IN ($2, $3) OR target BETWEEN $4 AND $5) AS controlled,
			(SELECT updated_at FROM webhooks WHERE id = $6 AND org = $7 AND stage = $8) AS hook_updated_at,
			(SELECT channel FROM suppressions WHERE org = $7 AND stage = $8 AND channel = (SELECT channel FROM webhooks WHERE id = $6) LIMIT 1) AS suppressing) AS x
		LEFT JOIN enrollments AS e ON e.id = ANY ($1::text[])
		LEFT JOIN leads AS l ON l.leads_id = e.leads_id`
	return s.in(dialects{text, strings.NewReplacer("$", "?", "= ANY ($1::text[])", "IN (SELECT value FROM json_each(?1))").Replace(text)})
}
