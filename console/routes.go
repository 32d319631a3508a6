package console

import "waypost"

// route is one line of the console.
type route struct {
	method  string
	pattern string             // as http.ServeMux reads it
	role    waypost.Role       // the least that may come here; anyone: also who has not signed in
	handle  func(*visit) error // live(…): of a page with page.Live
}

// anyone stands for the role of a route for which nobody must be signed in.
const anyone waypost.Role = ""

// routes lists every page and every form of the console. What a form does is decided by the
// grant of its call too (api.go): the role here keeps people from forms that they cannot
// send.
var routes = []route{
	{"GET", "/sign-in", anyone, (*visit).signIn},
	{"POST", "/sign-in", anyone, (*visit).signInByPassword},
	{"GET", "/sign-in/oidc", anyone, (*visit).goToIssuer},
	{"GET", "/sign-in/oidc/callback", anyone, (*visit).returnFromIssuer},
	{"POST", logoutPath, anyone, (*visit).signOutByIssuer},
	{"GET", "/sign-in/link", anyone, (*visit).showLink},
	{"POST", "/sign-in/link", anyone, (*visit).takeLink},
	{"GET", secondStepPath, anyone, (*visit).secondStep},
	{"POST", secondStepPath, anyone, (*visit).takeSecondStep},
	{"POST", "/sign-in/passkey", anyone, (*visit).takePasskey},
	{"POST", "/sign-out", anyone, (*visit).signOut},
	{"POST", "/preferences", anyone, (*visit).choose},

	// Also for those who cannot go on without a second factor: enrolling says who may come here.
	{"GET", factorPath, anyone, (*visit).secondFactor},
	{"GET", factorPath + "/app", anyone, enrolling((*visit).setUpApp)},
	{"POST", factorPath + "/app", anyone, enrolling((*visit).saveApp)},
	{"POST", factorPath + "/passkeys", anyone, enrolling((*visit).savePasskey)},
	{"POST", factorPath + "/passkeys/{id}/remove", waypost.RoleViewer, enrolling((*visit).removePasskey)},
	{"POST", factorPath + "/app/remove", waypost.RoleViewer, enrolling((*visit).removeApp)},
	{"POST", factorPath + "/codes", waypost.RoleViewer, enrolling((*visit).renewRecoveryCodes)},
	{"POST", factorPath + "/prove", waypost.RoleViewer, (*visit).prove},

	{"GET", accountPath, waypost.RoleViewer, (*visit).account},
	{"POST", accountPath + "/password", waypost.RoleViewer, (*visit).changePassword},
	{"POST", accountPath + "/sessions/end", waypost.RoleViewer, (*visit).endOtherSessions},
	{"POST", accountPath + "/sessions/{id}/end", waypost.RoleViewer, (*visit).endSession},

	{"GET", "/{$}", waypost.RoleViewer, live((*visit).overview)},
	{"GET", "/deliveries", waypost.RoleViewer, live((*visit).deliveries)},

	{"GET", "/deliveries/export", waypost.RoleViewer, (*visit).exportDeliveries},
	{"POST", "/deliveries/redeliver", waypost.RoleMarketer, (*visit).redeliver},
	{"GET", "/deliveries/{id}", waypost.RoleViewer, live((*visit).delivery)},
	{"POST", "/deliveries/{id}/redeliver", waypost.RoleMarketer, (*visit).redeliverOne},
	{"POST", "/redeliveries/{id}/cancel", waypost.RoleMarketer, (*visit).cancelRedelivery},
	{"GET", "/enrollments/{id}", waypost.RoleViewer, live((*visit).enrollment)},
	{"POST", "/enrollments/{id}/pause", waypost.RoleMarketer, (*visit).pauseEnrollment},
	{"POST", "/enrollments/{id}/resume", waypost.RoleMarketer, (*visit).resumeEnrollment},
	{"POST", "/enrollments/{id}/cancel", waypost.RoleMarketer, (*visit).cancelEnrollment},
	{"GET", "/leads", waypost.RoleViewer, (*visit).leads},
	{"GET", "/leads/new", waypost.RoleMarketer, (*visit).newLead},
	{"POST", "/leads", waypost.RoleMarketer, (*visit).createLead},
	{"GET", "/leads/export", waypost.RoleViewer, (*visit).exportLeads},
	{"GET", uploadPath, waypost.RoleMarketer, (*visit).showUpload},
	{"POST", uploadPath, waypost.RoleMarketer, (*visit).upload},
	{"GET", uploadPath + "/{id}", waypost.RoleMarketer, live((*visit).leadImport)},
	{"GET", uploadPath + "/{id}/errors", waypost.RoleMarketer, (*visit).importErrors},
	{"POST", uploadPath + "/{id}/cancel", waypost.RoleMarketer, (*visit).cancelImport},
	{"POST", "/leads/search.json", waypost.RoleViewer, (*visit).findLeads},
	{"GET", "/leads/{id}", waypost.RoleViewer, live((*visit).lead)},
	{"POST", "/leads/{id}", waypost.RoleMarketer, (*visit).saveLead},
	{"POST", "/leads/{id}/delete", waypost.RoleMarketer, (*visit).deleteLead},
	{"GET", "/segments", waypost.RoleViewer, (*visit).segments},
	{"GET", "/segments/new", waypost.RoleMarketer, (*visit).newSegment},
	{"POST", "/segments", waypost.RoleMarketer, (*visit).createSegment},
	{"GET", "/segments/options.json", waypost.RoleMarketer, (*visit).builderOptions},
	{"POST", "/segments/count", waypost.RoleMarketer, (*visit).countWhen},
	{"GET", "/segments/{id}", waypost.RoleViewer, (*visit).segment},
	{"GET", "/segments/{id}/edit", waypost.RoleMarketer, (*visit).editSegment},
	{"GET", "/segments/{id}/count", waypost.RoleViewer, (*visit).countSegment},
	{"GET", "/segments/{id}/members", waypost.RoleViewer, (*visit).members},
	{"POST", "/segments/{id}", waypost.RoleMarketer, (*visit).saveSegment},
	{"POST", "/segments/{id}/delete", waypost.RoleMarketer, (*visit).deleteSegment},
	{"GET", "/suppressions", waypost.RoleViewer, (*visit).suppressions},
	{"POST", "/suppressions", waypost.RoleMarketer, (*visit).addSuppression},
	{"POST", "/suppressions/{id}/delete", waypost.RoleMarketer, (*visit).deleteSuppression},
	{"GET", "/articles", waypost.RoleAdmin, (*visit).articles},
	{"GET", "/articles/new", waypost.RoleAdmin, (*visit).newArticle},
	{"POST", "/articles", waypost.RoleAdmin, (*visit).createArticle},
	{"POST", "/articles/reindex", waypost.RoleAdmin, (*visit).reindex},
	{"GET", "/articles/{id}", waypost.RoleAdmin, (*visit).article},
	{"POST", "/articles/{id}", waypost.RoleAdmin, (*visit).saveArticle},
	{"POST", "/articles/{id}/delete", waypost.RoleAdmin, (*visit).deleteArticle},
	{"GET", "/webhooks", waypost.RoleViewer, (*visit).webhooks},
	{"GET", "/webhooks/new", waypost.RoleAdmin, (*visit).newWebhook},
	{"POST", "/webhooks", waypost.RoleAdmin, (*visit).createWebhook},
	{"GET", "/webhooks/{id}", waypost.RoleViewer, live((*visit).webhook)},
	{"POST", "/webhooks/{id}", waypost.RoleAdmin, (*visit).saveWebhook},
	{"POST", "/webhooks/{id}/test", waypost.RoleAdmin, (*visit).testWebhook},
	{"POST", "/webhooks/{id}/enable", waypost.RoleAdmin, (*visit).enableWebhook},
	{"POST", "/webhooks/{id}/disable", waypost.RoleAdmin, (*visit).disableWebhook},
	{"POST", "/webhooks/{id}/secret", waypost.RoleAdmin, (*visit).rotateSecret},
	{"POST", "/webhooks/{id}/unsign", waypost.RoleAdmin, (*visit).removeSecret},
	{"POST", "/webhooks/{id}/delete", waypost.RoleAdmin, (*visit).deleteWebhook},

	{"GET", "/subscriptions", waypost.RoleViewer, (*visit).subscriptions},
	{"GET", "/subscriptions/new", waypost.RoleAdmin, (*visit).newSubscription},
	{"POST", "/subscriptions", waypost.RoleAdmin, (*visit).createSubscription},
	{"GET", "/subscriptions/{id}", waypost.RoleViewer, live((*visit).subscription)},
	{"POST", "/subscriptions/{id}", waypost.RoleAdmin, (*visit).saveSubscription},
	{"POST", "/subscriptions/{id}/delete", waypost.RoleAdmin, (*visit).deleteSubscription},

	{"GET", "/journeys", waypost.RoleViewer, live((*visit).journeys)},
	{"POST", "/journeys", waypost.RoleMarketer, (*visit).createJourney},
	{"GET", "/journeys/new", waypost.RoleMarketer, (*visit).newJourney},
	{"GET", "/journeys/{id}", waypost.RoleViewer, live((*visit).journey)},
	{"GET", "/journeys/{id}/canvas", waypost.RoleViewer, live((*visit).canvas)},
	{"GET", "/journeys/{id}/canvas.json", waypost.RoleViewer, (*visit).canvasJSON},
	{"GET", "/journeys/{id}/statistics.json", waypost.RoleViewer, (*visit).statisticsJSON},
	{"GET", "/journeys/{id}/options.json", waypost.RoleViewer, (*visit).optionsJSON},
	{"GET", "/journeys/{id}/enrollments", waypost.RoleViewer, live((*visit).enrollments)},
	{"GET", "/journeys/{id}/statistics", waypost.RoleViewer, live((*visit).statistics)},
	{"GET", "/journeys/{id}/launches", waypost.RoleViewer, live((*visit).journeyLaunches)},
	{"GET", "/journeys/{id}/versions", waypost.RoleViewer, (*visit).versions},
	{"GET", "/journeys/{id}/compare", waypost.RoleViewer, (*visit).compare},
	{"GET", "/journeys/{id}/definition.json", waypost.RoleViewer, (*visit).definitionJSON},
	{"GET", "/journeys/{id}/definition", waypost.RoleViewer, (*visit).definition},
	{"GET", "/journeys/{id}/definition.yaml", waypost.RoleViewer, (*visit).exportJourney},
	{"GET", "/journeys/{id}/try", waypost.RoleViewer, (*visit).try},
	{"POST", "/journeys/{id}/try", waypost.RoleViewer, (*visit).try},
	{"POST", "/journeys/{id}/try/send", waypost.RoleMarketer, (*visit).sendTest},
	{"GET", "/journeys/{id}/forecast", waypost.RoleViewer, (*visit).showForecast},
	{"GET", "/journeys/{id}/migrate", waypost.RoleMarketer, live((*visit).migration)},
	{"POST", "/journeys/{id}/migrate", waypost.RoleMarketer, (*visit).migrate},
	{"GET", "/journeys/{id}/edit", waypost.RoleMarketer, (*visit).editCanvas},
	{"GET", "/journeys/{id}/draft.json", waypost.RoleMarketer, (*visit).draftJSON},
	{"PUT", "/journeys/{id}/draft.json", waypost.RoleMarketer, (*visit).saveJSON},
	{"GET", "/journeys/{id}/draft.yaml", waypost.RoleMarketer, (*visit).draftYAML},
	{"PUT", "/journeys/{id}/draft.yaml", waypost.RoleMarketer, (*visit).saveYAML},
	{"POST", "/journeys/{id}/keep.json", waypost.RoleMarketer, (*visit).keepJSON},
	{"GET", "/journeys/{id}/check.json", waypost.RoleMarketer, (*visit).checkJSON},
	{"GET", "/journeys/{id}/text", waypost.RoleMarketer, (*visit).editText},
	{"POST", "/journeys/{id}/text", waypost.RoleMarketer, (*visit).saveText},
	{"GET", "/journeys/{id}/publish", waypost.RoleMarketer, (*visit).reviewPublish},
	{"POST", "/journeys/{id}/publish", waypost.RoleMarketer, (*visit).publish},
	{"POST", "/journeys/{id}/pause", waypost.RoleMarketer, controlJourney("pause", waypost.GrantJourneysRun)},
	{"POST", "/journeys/{id}/resume", waypost.RoleMarketer, controlJourney("resume", waypost.GrantJourneysRun)},
	{"POST", "/journeys/{id}/cancel", waypost.RoleMarketer, controlJourney("cancel", waypost.GrantJourneysRun)},
	{"POST", "/journeys/{id}/winners/{node}/reverse", waypost.RoleMarketer, (*visit).reverseWinner},
	{"POST", "/journeys/{id}/archive", waypost.RoleMarketer, controlJourney("archive", waypost.GrantJourneysWrite)},
	{"POST", "/journeys/{id}/copy", waypost.RoleMarketer, (*visit).copyJourney},
	{"POST", "/journeys/{id}/delete", waypost.RoleMarketer, (*visit).deleteJourney},
	{"GET", "/journeys/{id}/launch", waypost.RoleMarketer, (*visit).newLaunch},
	{"POST", "/journeys/{id}/launch", waypost.RoleMarketer, (*visit).sendLaunch},
	{"POST", "/journeys/{id}/launch/count", waypost.RoleMarketer, (*visit).countLaunch},

	{"GET", "/launches", waypost.RoleViewer, live((*visit).launches)},
	{"GET", "/launches/{id}", waypost.RoleViewer, live((*visit).launch)},
	{"POST", "/launches/{id}/pause", waypost.RoleMarketer, controlLaunch("pause")},
	{"POST", "/launches/{id}/resume", waypost.RoleMarketer, controlLaunch("resume")},
	{"POST", "/launches/{id}/rate", waypost.RoleMarketer, (*visit).changeRate},
	{"POST", "/launches/{id}/cancel", waypost.RoleMarketer, controlLaunch("cancel")},

	{"GET", "/audit", waypost.RoleAdmin, (*visit).audit},

	{"GET", "/users", waypost.RoleAdmin, (*visit).users},
	{"POST", "/users", waypost.RoleAdmin, (*visit).addUser},
	{"POST", "/users/{id}/role", waypost.RoleAdmin, (*visit).changeRole},
	{"POST", "/users/{id}/reset", waypost.RoleAdmin, (*visit).resetUser},
	{"POST", "/users/{id}/second-factor", waypost.RoleAdmin, (*visit).removeUserFactor},
	{"POST", "/users/{id}/disable", waypost.RoleAdmin, (*visit).disableUser},
	{"POST", "/users/{id}/release", waypost.RoleAdmin, (*visit).releaseUser},
	{"POST", "/users/{id}/delete", waypost.RoleAdmin, (*visit).deleteUser},
}

// navigation lists the places of the sidebar. One is shown if its path has a route that the
// person may use. Its text is nav.NAME.
var navigation = []place{
	{"overview", "/"},
	{"journeys", "/journeys"},
	{"launches", "/launches"},
	{"deliveries", "/deliveries"},
	{"leads", "/leads"},
	{"segments", "/segments"},
	{"suppressions", "/suppressions"},
	{"webhooks", "/webhooks"},
	{"subscriptions", "/subscriptions"},
	{"articles", "/articles"},
	{"audit", "/audit"},
	{"users", "/users"},
}

type place struct{ Name, Path string }

// places are the places that a role may go to.
func (c *console) places(role waypost.Role) []place {
	var out []place
	for _, p := range navigation {
		for _, rt := range c.routes {
			if rt.method == "GET" && (rt.pattern == p.Path || rt.pattern == p.Path+"{$}") && role.Reaches(rt.role) {
				out = append(out, p)
			}
		}
	}
	return out
}
