package gateway

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// route is one line of the interface.
type route struct {
	method string
	path   string        // as Fiber writes it; a GET also serves HEAD
	grant  waypost.Grant // byToken: none, and no signature
	body   *bodyKind     // whether it takes a body, and how large a one
	query  []string      // the parameters that it knows
	handle handler
}

// handler decodes, validates, calls and returns what to answer. An error that is
// no *waypost.Error is answered as InternalError without its cause.
type handler func(*server, context.Context, *request) (answer, error)

// waking wakes the pump once the handler has stored something for workflows to do.
func waking(h handler) handler {
	return func(a *server, ctx context.Context, r *request) (answer, error) {
		ans, err := h(a, ctx, r)
		if err == nil {
			a.Waker.Wake()
		}
		return ans, err
	}
}

// exports tells whether the route answers with everything that there is of a kind.
func (rt *route) exports() bool { return strings.HasSuffix(rt.path, "/export") }

// byToken stands for the grant of a route that takes a bearer token and no signature.
const byToken waypost.Grant = ""

// customFieldQuery stands for all parameters customFields.NAME, one for each custom field.
const customFieldQuery = customFieldsPrefix + "NAME"

var (
	leadFilterQuery = []string{"leadsIds", "leadsGroup", "region", "name", "mobilePhone", "email", "externalId", "gender", "test", "birthday", "importId", customFieldQuery, "createdFrom", "createdTo", "updatedFrom", "updatedTo", "sort"}
	leadListQuery   = append(slices.Clone(leadFilterQuery), pageQuery...)
	leadExportQuery = append(slices.Clone(leadFilterQuery), "format", "bom")
	importQuery     = []string{"mode", "match", "dryRun"}

	enrollmentQuery = append([]string{"journeyId", "version", "nodeId", "status", "leadsId", "launchId", "from", "to", "sort"}, pageQuery...)

	eventQuery = append([]string{"leadsId", "name", "from", "to", "sort"}, pageQuery...)

	pageQuery        = []string{"limit", "cursor"}
	journeyQuery     = append([]string{"name", "status", "tag", "webhookId"}, pageQuery...)
	webhookQuery     = append([]string{"name", "enabled"}, pageQuery...)
	suppressionQuery = append([]string{"channel", "leadsId"}, pageQuery...)
	launchQuery      = append([]string{"journeyId", "recurringId", "status"}, pageQuery...)

	deliveryFilterQuery = []string{
		"journeyId", "nodeId", "webhookId", "leadsId", "enrollmentId", "launchId", "subscriptionId", "status", "errorClass", "httpStatus", "from",
		"to",
	}
	deliveryQuery        = append(slices.Clone(deliveryFilterQuery), pageQuery...)
	deliverySummaryQuery = append(slices.Clone(deliveryFilterQuery), "groupBy")
	deliveryExportQuery  = append(slices.Clone(deliveryFilterQuery), "format", "bom")
	historyQuery         = []string{"from", "to", "every"}
	statisticsQuery      = []string{"version", "from", "to", "every"}
	auditQuery           = append([]string{"target", "actor", "from", "to"}, pageQuery...)
	// searchQuery are the parameters of docs/contract.md, "Search request"; Search reads them.
	searchQuery = []string{"tenant_id", "from", "keywords", "user_access_level", "_page", "_per_page"}
)

var routes = []route{
	{"POST", "/v1/leads", waypost.GrantLeadsImport, jsonBody, nil, (*server).createLead},
	{"GET", "/v1/leads", waypost.GrantLeadsExport, noBody, leadListQuery, (*server).listLeads},
	{"GET", "/v1/leads/export", waypost.GrantLeadsExport, noBody, leadExportQuery, (*server).exportLeads},
	{"POST", "/v1/leads/count", waypost.GrantJourneysRun, longBody, nil, (*server).countLeads},
	{"GET", "/v1/leads/fields", waypost.GrantLeadsExport, noBody, nil, (*server).listCustomFields},
	{"POST", "/v1/leads/imports", waypost.GrantLeadsImport, importBody, importQuery, waking((*server).importLeads)},
	{"GET", "/v1/leads/imports/:id", waypost.GrantLeadsImport, noBody, nil, (*server).showImport},
	{"GET", "/v1/leads/imports/:id/errors", waypost.GrantLeadsImport, noBody, nil, (*server).showImportErrors},
	{"POST", "/v1/leads/imports/:id/cancel", waypost.GrantLeadsImport, noBody, nil, (*server).cancelImport},
	{"GET", "/v1/leads/:id", waypost.GrantLeadsExport, noBody, nil, (*server).showLead},
	{"PATCH", "/v1/leads/:id", waypost.GrantLeadsUpdate, jsonBody, nil, (*server).patchLead},
	{"PUT", "/v1/leads/:id", waypost.GrantLeadsUpdate, jsonBody, nil, (*server).replaceLead},
	{"DELETE", "/v1/leads/:id", waypost.GrantLeadsUpdate, noBody, nil, (*server).deleteLead},

	{"POST", "/v1/webhooks", waypost.GrantWebhooksWrite, jsonBody, nil, (*server).createWebhook},
	{"GET", "/v1/webhooks", waypost.GrantWebhooksRead, noBody, webhookQuery, (*server).listWebhooks},
	{"GET", "/v1/webhooks/history", waypost.GrantWebhooksRead, noBody, historyQuery, (*server).showAttempts},
	{"GET", "/v1/webhooks/:id", waypost.GrantWebhooksRead, noBody, nil, (*server).showWebhook},
	{"PATCH", "/v1/webhooks/:id", waypost.GrantWebhooksWrite, jsonBody, nil, (*server).patchWebhook},
	{"DELETE", "/v1/webhooks/:id", waypost.GrantWebhooksWrite, noBody, nil, (*server).deleteWebhook},
	{"GET", "/v1/webhooks/:id/health", waypost.GrantWebhooksRead, noBody, nil, (*server).showHealth},
	{"GET", "/v1/webhooks/:id/history", waypost.GrantWebhooksRead, noBody, historyQuery, (*server).showHistory},
	{"POST", "/v1/webhooks/:id/test", waypost.GrantWebhooksWrite, noBody, nil, (*server).testWebhook},

	{"POST", "/v1/subscriptions", waypost.GrantSubscriptionsWrite, jsonBody, nil, (*server).createSubscription},
	{"GET", "/v1/subscriptions", waypost.GrantSubscriptionsRead, noBody, pageQuery, (*server).listSubscriptions},
	{"GET", "/v1/subscriptions/:id", waypost.GrantSubscriptionsRead, noBody, nil, (*server).showSubscription},
	{"PATCH", "/v1/subscriptions/:id", waypost.GrantSubscriptionsWrite, jsonBody, nil, (*server).patchSubscription},
	{"DELETE", "/v1/subscriptions/:id", waypost.GrantSubscriptionsWrite, noBody, nil, waking((*server).deleteSubscription)},

	{"POST", "/v1/suppressions", waypost.GrantSuppressionsWrite, jsonBody, nil, (*server).createSuppression},
	{"GET", "/v1/suppressions", waypost.GrantSuppressionsRead, noBody, suppressionQuery, (*server).listSuppressions},
	{"GET", "/v1/suppressions/:id", waypost.GrantSuppressionsRead, noBody, nil, (*server).showSuppression},
	{"DELETE", "/v1/suppressions/:id", waypost.GrantSuppressionsWrite, noBody, nil, (*server).deleteSuppression},

	{"POST", "/v1/segments", waypost.GrantSegmentsWrite, jsonBody, nil, (*server).createSegment},
	{"GET", "/v1/segments", waypost.GrantSegmentsRead, noBody, pageQuery, (*server).listSegments},
	{"GET", "/v1/segments/:id", waypost.GrantSegmentsRead, noBody, nil, (*server).showSegment},
	{"PUT", "/v1/segments/:id", waypost.GrantSegmentsWrite, jsonBody, nil, (*server).replaceSegment},
	{"DELETE", "/v1/segments/:id", waypost.GrantSegmentsWrite, noBody, nil, (*server).deleteSegment},
	{"GET", "/v1/segments/:id/count", waypost.GrantSegmentsRead, noBody, nil, (*server).countSegment},
	{"GET", "/v1/segments/:id/members", waypost.GrantLeadsExport, noBody, pageQuery, (*server).listMembers},

	{"POST", "/v1/journeys", waypost.GrantJourneysWrite, jsonBody, nil, (*server).createJourney},
	{"GET", "/v1/journeys", waypost.GrantJourneysRead, noBody, journeyQuery, (*server).listJourneys},
	{"GET", "/v1/journeys/:id", waypost.GrantJourneysRead, noBody, nil, (*server).showJourney},
	{"PUT", "/v1/journeys/:id", waypost.GrantJourneysWrite, jsonBody, nil, (*server).replaceJourney},
	{"DELETE", "/v1/journeys/:id", waypost.GrantJourneysWrite, noBody, nil, (*server).deleteJourney},
	{"POST", "/v1/journeys/:id/publish", waypost.GrantJourneysWrite, noBody, nil, (*server).publishJourney},
	{"POST", "/v1/journeys/:id/copy", waypost.GrantJourneysWrite, optionalBody, nil, (*server).copyJourney},
	{"POST", "/v1/journeys/:id/archive", waypost.GrantJourneysWrite, noBody, nil, (*server).archiveJourney},
	{"POST", "/v1/journeys/:id/migrate", waypost.GrantJourneysRun, jsonBody, nil, (*server).migrateJourney},
	{"GET", "/v1/journeys/:id/versions", waypost.GrantJourneysRead, noBody, pageQuery, (*server).listVersions},
	{"GET", "/v1/journeys/:id/versions/:version", waypost.GrantJourneysRead, noBody, nil, (*server).showVersion},
	{"GET", "/v1/journeys/:id/versions/:a/diff/:b", waypost.GrantJourneysRead, noBody, nil, (*server).diffVersions},
	{"GET", "/v1/journeys/:id/statistics", waypost.GrantJourneysRead, noBody, statisticsQuery, (*server).showStatistics},
	{"POST", "/v1/journeys/:id/winners/:node/reverse", waypost.GrantJourneysRun, optionalBody, nil, (*server).reverseWinner},
	{"POST", "/v1/journeys/:id/dryrun", waypost.GrantJourneysRead, jsonBody, nil, (*server).dryRun},
	{"POST", "/v1/journeys/:id/test", waypost.GrantJourneysRun, jsonBody, nil, (*server).testJourney},
	{"POST", "/v1/journeys/:id/forecast", waypost.GrantJourneysRead, longBody, nil, (*server).forecast},

	{"POST", "/v1/journeys/:id/enrollments", waypost.GrantJourneysRun, jsonBody, nil, (*server).enroll},
	{"GET", "/v1/enrollments", waypost.GrantJourneysRead, noBody, enrollmentQuery, (*server).listEnrollments},
	{"GET", "/v1/enrollments/:id", waypost.GrantJourneysRead, noBody, nil, (*server).showEnrollment},
	{"POST", "/v1/journeys/:id/launches", waypost.GrantJourneysRun, longBody, nil, waking((*server).launch)},
	{"GET", "/v1/launches", waypost.GrantJourneysRead, noBody, launchQuery, (*server).listLaunches},
	{"GET", "/v1/launches/:id", waypost.GrantJourneysRead, noBody, nil, (*server).showLaunch},

	{"POST", "/v1/enrollments/:id/pause", waypost.GrantJourneysRun, noBody, nil, (*server).pauseEnrollment},
	{"POST", "/v1/enrollments/:id/resume", waypost.GrantJourneysRun, optionalBody, nil, waking((*server).resumeEnrollment)},
	{"POST", "/v1/enrollments/:id/cancel", waypost.GrantJourneysRun, noBody, nil, waking((*server).cancelEnrollment)},
	{"PATCH", "/v1/launches/:id", waypost.GrantJourneysRun, jsonBody, nil, (*server).patchLaunch},
	{"POST", "/v1/launches/:id/pause", waypost.GrantJourneysRun, noBody, nil, (*server).pauseLaunch},
	{"POST", "/v1/launches/:id/resume", waypost.GrantJourneysRun, optionalBody, nil, waking((*server).resumeLaunch)},
	{"POST", "/v1/launches/:id/cancel", waypost.GrantJourneysRun, noBody, nil, waking((*server).cancelLaunch)},
	{"POST", "/v1/journeys/:id/pause", waypost.GrantJourneysRun, noBody, nil, (*server).pauseJourney},
	{"POST", "/v1/journeys/:id/resume", waypost.GrantJourneysRun, optionalBody, nil, waking((*server).resumeJourney)},
	{"POST", "/v1/journeys/:id/cancel", waypost.GrantJourneysRun, noBody, nil, waking((*server).cancelJourney)},

	{"POST", "/v1/events", waypost.GrantJourneysRun, jsonBody, nil, (*server).acceptEvent},
	{"GET", "/v1/events", waypost.GrantJourneysRead, noBody, eventQuery, (*server).listEvents},
	{"GET", "/v1/events/names", waypost.GrantJourneysRead, noBody, nil, (*server).listEventNames},
	{"POST", "/v1/events/import", waypost.GrantJourneysRun, linesBody, nil, (*server).importEvents},

	{"GET", "/v1/deliveries", waypost.GrantDeliveriesRead, noBody, deliveryQuery, (*server).listDeliveries},
	{"GET", "/v1/deliveries/summary", waypost.GrantDeliveriesRead, noBody, deliverySummaryQuery, (*server).summarizeDeliveries},
	{"GET", "/v1/deliveries/export", waypost.GrantDeliveriesRead, noBody, deliveryExportQuery, (*server).exportDeliveries},
	{"GET", "/v1/deliveries/:id", waypost.GrantDeliveriesRead, noBody, nil, (*server).showDelivery},
	{"POST", "/v1/deliveries/:id/redeliver", waypost.GrantDeliveriesRedeliver, noBody, nil, waking((*server).redeliver)},
	{"POST", "/v1/redeliveries", waypost.GrantDeliveriesRedeliver, jsonBody, nil, waking((*server).createRedelivery)},
	{"GET", "/v1/redeliveries", waypost.GrantDeliveriesRead, noBody, pageQuery, (*server).listRedeliveries},
	{"GET", "/v1/redeliveries/:id", waypost.GrantDeliveriesRead, noBody, nil, (*server).showRedelivery},
	{"POST", "/v1/redeliveries/:id/cancel", waypost.GrantDeliveriesRedeliver, noBody, nil, waking((*server).cancelRedelivery)},

	{"POST", "/v1/articles/import", waypost.GrantArticlesWrite, linesBody, nil, (*server).importArticles},
	{"POST", "/v1/articles/reindex", waypost.GrantArticlesWrite, noBody, nil, (*server).requestReindex},
	{"GET", "/v1/articles/reindex", waypost.GrantArticlesWrite, noBody, nil, (*server).showReindex},
	{"PUT", "/v1/articles/:id", waypost.GrantArticlesWrite, articleBody, nil, (*server).putArticle},
	{"GET", "/v1/articles/:id", waypost.GrantArticlesWrite, noBody, nil, (*server).showArticle},
	{"DELETE", "/v1/articles/:id", waypost.GrantArticlesWrite, noBody, nil, (*server).deleteArticle},

	{"GET", "/v1/audit", waypost.GrantAuditRead, noBody, auditQuery, (*server).listAudit},

	{"POST", "/v1/tokens", waypost.GrantTokensIssue, jsonBody, nil, (*server).issueToken},
	{"GET", searchPath, byToken, noBody, searchQuery, (*server).searchArticles},
}

type check = func(*server, context.Context, *request) error

// signedChecks are what a signed request passes between its route and its handler,
// in the order of docs/contract.md, "Order of checks".
var signedChecks = []check{
	(*server).checkPath,
	(*server).authenticate,
	(*server).checkAwaited,
	(*server).readBody,
	(*server).checkStill,
	(*server).selectStage,
	(*server).readActor,
	(*server).checkMedia,
	(*server).claimKey,
}

// tokenChecks are the same of a request with a bearer token.
var tokenChecks = []check{
	(*server).checkPath,
	(*server).authenticateBearer,
}

func (a *server) serve(rt route) fiber.Handler {
	checks, handle := signedChecks, (*server).handle
	if rt.grant == byToken {
		checks, handle = tokenChecks, rt.handle
	}
	return func(c *fiber.Ctx) error {
		r := requestOf(c)
		r.route = &rt
		r.wire.most = maxDrain + int64(rt.body.limit)
		ctx, cancel := context.WithTimeout(c.UserContext(), rt.body.time+handlerTime+time.Duration(waypost.MaxTimeoutMs)*time.Millisecond)
		defer cancel()
		defer a.closeSpool(r)
		for _, check := range checks {
			if err := check(a, ctx, r); err != nil {
				return err
			}
		}
		ans, err := handle(a, ctx, r)
		if err != nil {
			return err
		}
		return ans.write(a, c)
	}
}

// handle answers as it did to an earlier request of the same Idempotency-Key, or has the
// handler answer and keeps that.
func (a *server) handle(ctx context.Context, r *request) (answer, error) {
	if r.replay != nil {
		return replayed(r.replay), nil
	}
	var ans answer
	err := cmp.Or(a.checkQuery(r), r.checkIfMatch())
	if err == nil {
		ans, err = r.route.handle(a, ctx, r)
	}
	return ans, a.settle(ctx, r, ans, err)
}
