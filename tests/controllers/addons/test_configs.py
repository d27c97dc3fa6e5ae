"""Which configurations an add-on has, without a hub."""

import pytest

from fairway.api.addon import AddOnConfig
from fairway.api.addon_template import AddOnTemplate
from fairway.api.salvage import salvage
from fairway.controllers.addons import configs
from fairway.controllers.addons.configs import StrangeConfig


def test_template_whose_spec_cannot_be_read_is_refused_by_name() -> None:
    group, resource = configs.TEMPLATES
    template = salvage(
        b'{"metadata":{"name":"t"},"spec":{"addonName":"a","registration":[7]}}', AddOnTemplate
    )
    with pytest.raises(
        StrangeConfig, match=r"^AddOnTemplate t: spec\.registration\[0\] cannot be read: Expected"
    ):
        configs.found(
            (AddOnConfig(group=group, resource=resource, name="t"),),
            add_on="a",
            templates={("", "t"): template},
            deployments={},
        )
