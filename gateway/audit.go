package gateway

import (
	"context"
	"slices"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/api"
	"waypost/signature"
)

// Audit is the log of who changed what. Methods that change something write it themselves:
// they take a waypost.Caller.
type Audit interface {
	// RecordAudit writes an entry for what changes nothing that is stored.
	RecordAudit(ctx context.Context, by waypost.Author, action, target string, after any) error
	ListAudit(ctx context.Context, sc waypost.Scope, f waypost.AuditFilter, page waypost.Page) ([]waypost.AuditEntry, error)
}

// by is who asks.
func (r *request) by() waypost.Author {
	return waypost.Author{Scope: r.scope, Application: r.app.ID, Actor: r.actor, RequestID: r.id}
}

// readActor reads the name of the person behind the application, which is signed if it is
// there.
func (a *server) readActor(_ context.Context, r *request) error {
	if !r.sent(signature.HeaderActor) {
		return nil
	}
	sent := r.header(signature.HeaderActor)
	if r.actor = signature.CanonicalValue(sent); !waypost.IsActor(sent) {
		return waypost.Errorf(waypost.CodeBadRequest, signature.HeaderActor,
			"X-Cloud-Actor must be 1 to %d characters of UTF-8, without control characters", waypost.MaxActor)
	}
	return nil
}

// exportBegins writes the entry of an export. One that leaves none is not begun.
func (a *server) exportBegins(ctx context.Context, r *request, kind, things, format string) error {
	if r.method == fiber.MethodHead { // which gives nothing out
		return nil
	}
	filters := []string{}
	for name := range r.params {
		if name != "format" && name != "bom" {
			filters = append(filters, name)
		}
	}
	slices.Sort(filters)
	return a.Audit.RecordAudit(ctx, r.by(), kind+".export", things, map[string]any{"format": format, "filters": filters})
}

func answerAudit(e waypost.AuditEntry) api.AuditEntry {
	return api.AuditEntry{
		At: api.At(e.At()), Application: api.TextOrNull(e.Author.Application), Actor: api.TextOrNull(e.Author.Actor), Action: e.Action,
		Target: e.Target, Before: api.ObjectOrNull(e.Before), After: api.ObjectOrNull(e.After), RequestID: api.TextOrNull(e.Author.RequestID),
		Address: api.TextOrNull(e.Author.Address),
	}
}

func (a *server) listAudit(ctx context.Context, r *request) (answer, error) {
	filter := waypost.AuditFilter{
		Target: r.params["target"], Actor: r.params["actor"], From: r.moment("from"), To: r.moment("to"),
	}
	inOrder(&r.queryFaults, "", "from", "to", filter.From, filter.To)
	return answerPage(r, func(page waypost.Page) ([]waypost.AuditEntry, error) {
		return a.Audit.ListAudit(ctx, r.scope, filter, page)
	}, func(e waypost.AuditEntry) string { return e.ID }, answerAudit)
}
