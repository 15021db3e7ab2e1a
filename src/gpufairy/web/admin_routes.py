"""Routes of the admin pages, one module each."""
from fastapi import APIRouter

from gpufairy.web.admin_accounting import add_accounting
from gpufairy.web.admin_alerts import add_alerts
from gpufairy.web.admin_classes import add_classes
from gpufairy.web.admin_disk import add_disk
from gpufairy.web.admin_doctor import add_doctor
from gpufairy.web.admin_events import add_events
from gpufairy.web.admin_home import add_admin_home
from gpufairy.web.admin_images import add_images
from gpufairy.web.admin_mig import add_mig
from gpufairy.web.admin_nodes import add_nodes
from gpufairy.web.admin_pools import add_pools
from gpufairy.web.admin_settings import add_settings
from gpufairy.web.admin_shares import add_shares
from gpufairy.web.admin_teams import add_quotas, add_teams
from gpufairy.web.admin_user import add_user_page
from gpufairy.web.admin_users import add_users
from gpufairy.web.context import PageContext


def add_admin(router: APIRouter, context: PageContext) -> None:
    add_admin_home(router, context)
    add_users(router, context)
    add_user_page(router, context)
    add_teams(router, context)
    add_quotas(router, context)
    add_classes(router, context)
    add_accounting(router, context)
    add_disk(router, context)
    add_images(router, context)
    add_nodes(router, context)
    add_pools(router, context)
    add_shares(router, context)
    add_mig(router, context)
    add_alerts(router, context)
    add_doctor(router, context)
    add_events(router, context)
    add_settings(router, context)
